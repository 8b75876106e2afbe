# SPDX-License-Identifier: Apache-2.0
# usage: cmake -DFOLDER=report_page -DOUTPUT=report_page.inc.h -P page_text.cmake
# The page as a string of C, `report_page`: page.html, in which @FILE@ stands for that file of the folder. @DATA@ stays.
file(READ ${FOLDER}/page.html text)
foreach(part style.css charts.js page.js)
  file(READ ${FOLDER}/${part} inside)
  string(REPLACE "@${part}@" "${inside}" text "${text}")
endforeach()
string(REPLACE "\\" "\\\\" text "${text}")
string(REPLACE "\"" "\\\"" text "${text}")
string(REPLACE "\n" "\\n\"\n    \"" text "${text}")
file(WRITE ${OUTPUT} "static const char report_page[] =\n    \"${text}\";\n")
