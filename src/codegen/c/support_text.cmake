# SPDX-License-Identifier: Apache-2.0
# usage: cmake -DINPUT=support.txt -DOUTPUT=support_text.inc.h -DNAME=support_text -P support_text.cmake
# The text as a string of C, `NAME`.
file(READ "${INPUT}" text)
string(REPLACE "\\" "\\\\" text "${text}")
string(REPLACE "\"" "\\\"" text "${text}")
string(REPLACE "\n" "\\n\"\n    \"" text "${text}")
file(WRITE "${OUTPUT}" "static const char ${NAME}[] =\n    \"${text}\";\n")
