# cmake -DOUT=file.c -DSOURCE=dir -DVERSION=1.2.3 -P Version.cmake: writes the version of the
# sources, with the commit if they are a git clone. The file changes only when the version does.
set(build ${VERSION})
execute_process(COMMAND git -C ${SOURCE} rev-parse --show-toplevel --short=7 HEAD
                OUTPUT_VARIABLE answer ERROR_QUIET RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT failed AND answer MATCHES "^(.*)\n([0-9a-f]+)$" AND CMAKE_MATCH_1 STREQUAL SOURCE)
    string(APPEND build "+${CMAKE_MATCH_2}")
    execute_process(COMMAND git -C ${SOURCE} status --porcelain --untracked-files=no
                    OUTPUT_VARIABLE changes ERROR_QUIET)
    if(NOT changes STREQUAL "")
        string(APPEND build "-dirty")
    endif()
endif()
set(text "#include \"base/version.h\"\n\nconst char muster_version[] = \"${build}\";\n")
set(old "")
if(EXISTS ${OUT})
    file(READ ${OUT} old)
endif()
if(NOT old STREQUAL text)
    file(WRITE ${OUT} "${text}")
endif()
