# The Debian packages, by CPack: one for each component of the install rules. packaging/build-packages runs it.
# The files that only packages have (units, settings) are left out of "cmake --install build".
if(MUSTER_SANITIZE)
    return()
endif()
set(packaging ${CMAKE_SOURCE_DIR}/packaging)
set(package_scripts ${CMAKE_BINARY_DIR}/packaging)

foreach(daemon master agent)
    install(FILES ${packaging}/systemd/muster-${daemon}.service DESTINATION lib/systemd/system
            COMPONENT ${daemon} EXCLUDE_FROM_ALL)
    foreach(kind sysusers tmpfiles)
        install(FILES ${packaging}/systemd/muster-${daemon}.${kind} RENAME muster-${daemon}.conf
                DESTINATION lib/${kind}.d COMPONENT ${daemon} EXCLUDE_FROM_ALL)
    endforeach()
endforeach()
install(FILES ${packaging}/systemd/muster-tasks.service DESTINATION lib/systemd/system
        COMPONENT agent EXCLUDE_FROM_ALL)
install(FILES ${packaging}/etc/master.yaml DESTINATION /etc/muster COMPONENT master EXCLUDE_FROM_ALL)
install(FILES ${packaging}/etc/muster-agent.default RENAME muster-agent DESTINATION /etc/default
        COMPONENT agent EXCLUDE_FROM_ALL)
set(package_components master agent trainer client)
if(WHEEL_PYTHON)
    list(APPEND package_components python)
    install(DIRECTORY ${wheel_build}/unpacked/ DESTINATION lib/python3/dist-packages COMPONENT python EXCLUDE_FROM_ALL)
endif()
if(MUSTER_CUDA_FOUND)
    list(APPEND package_components trainer_cuda)
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME muster)
set(CPACK_PACKAGE_VENDOR Muster)
set(CPACK_PACKAGE_CONTACT "Muster maintainers <muster@localhost>")
set(CPACK_COMPONENTS_ALL ${package_components})
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/cmake/PackageFiles.cmake)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

# debian_package(COMPONENT NAME SECTION "SUMMARY" "DESCRIPTION" [FIELD VALUE]...): FIELD is DEPENDS, RECOMMENDS, ...
# packaging/maintainer has the scripts that dpkg runs, as NAME.postinst etc., and NAME.conffiles.
function(debian_package component name section summary description)
    string(TOUPPER ${component} upper)
    install(FILES ${packaging}/maintainer/copyright DESTINATION share/doc/${name} COMPONENT ${component}
            EXCLUDE_FROM_ALL)
    set(prefix CPACK_DEBIAN_${upper}_PACKAGE)
    set(${prefix}_NAME ${name} PARENT_SCOPE)
    set(${prefix}_SECTION ${section} PARENT_SCOPE)
    set(CPACK_COMPONENT_${upper}_DESCRIPTION "${summary}\n${description}" PARENT_SCOPE)
    set(control "")
    foreach(script preinst postinst prerm postrm conffiles)
        if(EXISTS ${packaging}/maintainer/${name}.${script})
            configure_file(${packaging}/maintainer/${name}.${script} ${package_scripts}/${name}/${script} COPYONLY)
            list(APPEND control ${package_scripts}/${name}/${script})
        endif()
    endforeach()
    set(${prefix}_CONTROL_EXTRA "${control}" PARENT_SCOPE)
    list(LENGTH ARGN count)
    if(count)
        math(EXPR last "${count} - 1")
        foreach(i RANGE 0 ${last} 2)
            math(EXPR j "${i} + 1")
            list(GET ARGN ${i} field)
            list(GET ARGN ${j} value)
            set(${prefix}_${field} "${value}" PARENT_SCOPE)
        endforeach()
    endif()
endfunction()

# Programs load these libraries at their first use, so dpkg-shlibdeps does not see them.
get_property(loaded_later GLOBAL PROPERTY MUSTER_LOADED_LATER)
list(JOIN loaded_later "\n" lines)
file(WRITE ${package_scripts}/loaded_later "${lines}\n") # for packaging/tarball
set(libraries ca-certificates)
foreach(library ${loaded_later})
    string(REGEX REPLACE "^/usr" "*" library ${library}) # a package has it in /lib or in /usr/lib
    execute_process(COMMAND dpkg-query -S ${library} OUTPUT_VARIABLE owner ERROR_QUIET)
    if(owner MATCHES "^libssh2")
        set(client_libraries ", libssh2-1") # of "muster cluster" alone
    elseif(owner MATCHES "^([^:, ]+)")
        string(APPEND libraries ", ${CMAKE_MATCH_1}")
    endif()
endforeach()
set(accounts "systemd | systemd-standalone-sysusers, systemd | systemd-standalone-tmpfiles")

debian_package(master muster-master admin "orchestrator of deep-learning trainings: the master"
"The daemon of a cluster that trains deep-learning models. It keeps experiments
in one SQLite file, schedules them onto the slots of its agents, and serves a
REST API and a web page."
    DEPENDS "${libraries}, ${accounts}" RECOMMENDS "muster-client")
debian_package(agent muster-agent admin "orchestrator of deep-learning trainings: the agent"
"The daemon of each machine of a Muster cluster. It reports the machine's GPUs or
CPU cores as slots, starts the tasks that the master places on them, and ships
their logs and metrics."
    DEPENDS "${libraries}, ${accounts}" RECOMMENDS "muster-trainer, muster-client"
    SUGGESTS "muster-trainer-cuda, python3")
debian_package(trainer muster-trainer science "orchestrator of deep-learning trainings: the native trainer"
"Trains models that an experiment file describes, on CPU cores. The weights have
the same bits on any number of slots."
    DEPENDS "${libraries}")
debian_package(client muster-client utils "orchestrator of deep-learning trainings: the command"
"The command muster submits experiments to a Muster cluster, shows and compares
them, and administers the cluster. With manual pages and completion for bash,
zsh and fish."
    DEPENDS "${libraries}${client_libraries}")
debian_package(python python3-muster python "orchestrator of deep-learning trainings: the Python package"
"The package muster for Python programs that run as tasks of a Muster cluster:
metrics, checkpoints, stop requests and meetings of ranks."
    DEPENDS "python3 (>= 3.9)" SUGGESTS "python3-torch" ARCHITECTURE all SHLIBDEPS OFF)
# NVIDIA's libraries are in packages of several sources, or in none, so that dpkg-shlibdeps cannot name them. The other
# libraries are those of muster-trainer.
debian_package(trainer_cuda muster-trainer-cuda science "orchestrator of deep-learning trainings: the GPU trainer"
"The native trainer for NVIDIA's GPUs. It needs the CUDA runtime 12.8 or newer
with cuBLASLt and NVRTC, cuDNN 9.8 or newer, and NCCL, as they were when the
package was built."
    DEPENDS "muster-trainer (>= ${PROJECT_VERSION}), libstdc++6, libgcc-s1"
    SHLIBDEPS OFF SUGGESTS "libnccl2, libcudnn9-cuda-12")
include(CPack)
