# cmake -DSTEP=packages|page|check -DSOURCE=webui -DBUILD=folder -DNODE=node -DNPM=npm -P WebuiStep.cmake
#
# packages: installs the packages of package-lock.json into the folder
# page: builds the page from a copy of the sources in that folder
# check: checks the types and runs the tests of the page in that copy
function(run what)
    execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${BUILD} RESULT_VARIABLE failed)
    if(failed)
        message(FATAL_ERROR "${what} (${failed}); see the output above. "
                            "-DMUSTER_WEBUI=OFF builds a master without its web page.")
    endif()
endfunction()

if(STEP STREQUAL "packages")
    file(COPY ${SOURCE}/package.json ${SOURCE}/package-lock.json ${SOURCE}/.npmrc DESTINATION ${BUILD})
    run("npm could not fetch the packages of the web page (is there a network?)"
        ${NPM} ci --ignore-scripts --no-progress --loglevel=error)
    file(TOUCH ${BUILD}/packages.stamp)
elseif(STEP STREQUAL "page")
    file(REMOVE_RECURSE ${BUILD}/src ${BUILD}/dist)
    file(COPY ${SOURCE}/src ${SOURCE}/index.html ${SOURCE}/vite.config.ts ${SOURCE}/tsconfig.json
         ${SOURCE}/embed.mjs DESTINATION ${BUILD})
    run("The web page was not built" ${NODE} node_modules/vite/bin/vite.js build --logLevel warn)
    run("The web page was not embedded" ${NODE} embed.mjs dist include)
else()
    file(REMOVE_RECURSE ${BUILD}/test ${BUILD}/node_modules/.test)
    file(COPY ${SOURCE}/test DESTINATION ${BUILD})
    run("The types of the web page do not fit" ${NPM} run --silent check)
    run("A test of the web page failed" ${NPM} run --silent test)
endif()
