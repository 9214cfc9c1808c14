# Builds the web page (webui/) with Vite and embeds it into the master: page_files.inc is included by
# master/http/page_files.c. The build uses a copy in the build folder.
if(MUSTER_SANITIZE OR MUSTER_FUZZ) # these builds test no code of the page
    set(webui_wanted OFF)
else()
    set(webui_wanted ON)
endif()
option(MUSTER_WEBUI "Build the web page into the master (needs Node.js 18 and npm)" ${webui_wanted})

set(webui_source ${CMAKE_SOURCE_DIR}/webui)
set(webui_build ${CMAKE_BINARY_DIR}/webui)
set(MUSTER_WEBUI_INCLUDE ${webui_build}/include)

if(MUSTER_WEBUI)
    find_program(NODE_PROGRAM NAMES node nodejs)
    find_program(NPM_PROGRAM npm)
    if(NOT NODE_PROGRAM OR NOT NPM_PROGRAM)
        message(WARNING "Node.js and npm were not both found: the master is built without its web page. "
                        "packaging/setup installs them; -DMUSTER_WEBUI=OFF builds without the page and without this warning.")
    endif()
endif()

if(MUSTER_WEBUI AND NODE_PROGRAM AND NPM_PROGRAM)
    set(MUSTER_WEBUI_BUILT 1 CACHE INTERNAL "Whether the master has its page")
    set(webui_step ${CMAKE_COMMAND} -DSOURCE=${webui_source} -DBUILD=${webui_build} -DNODE=${NODE_PROGRAM}
        -DNPM=${NPM_PROGRAM})
    set(webui_packages ${webui_source}/package.json ${webui_source}/package-lock.json ${webui_source}/.npmrc)
    add_custom_command(
        OUTPUT ${webui_build}/packages.stamp
        COMMAND ${webui_step} -DSTEP=packages -P ${CMAKE_SOURCE_DIR}/cmake/WebuiStep.cmake
        DEPENDS ${webui_packages} ${CMAKE_SOURCE_DIR}/cmake/WebuiStep.cmake
        COMMENT "Fetching the packages of the web page"
        VERBATIM)
    file(GLOB_RECURSE webui_files CONFIGURE_DEPENDS ${webui_source}/src/*)
    add_custom_command(
        OUTPUT ${MUSTER_WEBUI_INCLUDE}/page_files.inc
        COMMAND ${webui_step} -DSTEP=page -P ${CMAKE_SOURCE_DIR}/cmake/WebuiStep.cmake
        DEPENDS ${webui_build}/packages.stamp ${webui_files} ${webui_source}/index.html
                ${webui_source}/vite.config.ts ${webui_source}/tsconfig.json ${webui_source}/embed.mjs
        COMMENT "Building the web page"
        VERBATIM)
else()
    set(MUSTER_WEBUI_BUILT 0 CACHE INTERNAL "Whether the master has its page")
    file(CONFIGURE OUTPUT ${MUSTER_WEBUI_INCLUDE}/page_files.inc CONTENT "")
endif()
