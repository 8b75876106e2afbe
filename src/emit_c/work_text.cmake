# SPDX-License-Identifier: Apache-2.0
# usage: cmake -DINPUT=work.h -DOUTPUT=work_text.inc.h -DNAME=work_text -P work_text.cmake
# What a header of the runtime's work says behind its includes as a string of C, `NAME`, where @ stands for a model's name
# and ^ for the same in capitals, and two of one for itself.
file(READ "${INPUT}" text)
string(FIND "${text}" "#include" start REVERSE)
string(FIND "${text}" "\n#endif" end REVERSE)
if(start EQUAL -1 OR end EQUAL -1)
  message(FATAL_ERROR "${INPUT} does not have the text between its includes and its last #endif")
endif()
math(EXPR length "${end} - ${start}")
string(SUBSTRING "${text}" ${start} ${length} text)
string(FIND "${text}" "\n\n" start)
math(EXPR start "${start} + 2")
string(SUBSTRING "${text}" ${start} -1 text)
string(REPLACE "@" "@@" text "${text}")
string(REPLACE "^" "^^" text "${text}")
string(REPLACE "tn__work_" "tni_@_" text "${text}")
string(REPLACE "tn__list" "tni_@_list" text "${text}")
string(REPLACE "TN__LIST" "TNI_^_LIST" text "${text}")
string(REPLACE "\\" "\\\\" text "${text}")
string(REPLACE "\"" "\\\"" text "${text}")
string(REPLACE "\n" "\\n\"\n    \"" text "${text}")
file(WRITE "${OUTPUT}" "static const char ${NAME}[] =\n    \"${text}\";\n")
