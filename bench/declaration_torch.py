# SPDX-License-Identifier: Apache-2.0
"""Declarations as PyTorch says them, for those that it has a natural form of."""

TORCH = {}
