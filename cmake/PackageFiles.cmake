# CPack runs this on the files of all packages before it packs them: Debian has its manual pages compressed.
file(GLOB pages ${CPACK_TEMPORARY_DIRECTORY}/*/usr/share/man/man*/*)
if(pages)
    execute_process(COMMAND gzip -9n ${pages} RESULT_VARIABLE failed)
    if(failed)
        message(FATAL_ERROR "gzip could not compress the manual pages (${failed})")
    endif()
endif()
