#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: run.sh PROGRAM SEEDS FOUND SECONDS [SEED]
# Fuzzes for some time from the seeds and from what earlier runs left in FOUND/NAME; new inputs go there, and an input
# that breaks something to FOUND/NAME-*.
set -eu
program=$1 seeds=$2 found=$3 seconds=$4 seed=${5:-0}
name=$(basename "$seeds")
mkdir -p "$found/$name"
"$program" "-max_total_time=$seconds" "-seed=$seed" -timeout=1800 -rss_limit_mb=4096 -print_final_stats=1 \
  "-artifact_prefix=$found/$name-" "$found/$name" "$seeds" || {
  echo "fuzzing $name found a defect; its input is $found/$name-*" >&2
  exit 1
}
