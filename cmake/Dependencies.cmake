# System libraries; ARCHITECTURE.md gives the reason for each.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson>=2.14)
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1)
pkg_check_modules(RE2 REQUIRED IMPORTED_TARGET re2)
pkg_check_modules(NETTLE REQUIRED IMPORTED_TARGET nettle>=3.8)
pkg_check_modules(CURL REQUIRED IMPORTED_TARGET libcurl>=7.88)
pkg_check_modules(ARCHIVE REQUIRED IMPORTED_TARGET libarchive>=3.6)
pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(PNG REQUIRED IMPORTED_TARGET libpng>=1.6)
pkg_check_modules(JPEG REQUIRED IMPORTED_TARGET libjpeg)
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3>=3.40)
pkg_check_modules(MHD REQUIRED IMPORTED_TARGET libmicrohttpd>=0.9.75)
pkg_check_modules(CRYPT REQUIRED IMPORTED_TARGET libcrypt)
pkg_check_modules(GNUTLS REQUIRED IMPORTED_TARGET gnutls>=3.7) # tests
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka>=1.1.5)

# Only the trainer needs the rest.
if(MUSTER_FUZZ)
    return()
endif()
find_library(DNNL_LIBRARY dnnl REQUIRED)
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.h REQUIRED)
add_library(muster_dnnl INTERFACE)
target_include_directories(muster_dnnl SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
# Debian's oneDNN uses libgomp; the trainer limits it to one thread.
find_package(OpenMP REQUIRED COMPONENTS C)
target_link_libraries(muster_dnnl INTERFACE ${DNNL_LIBRARY} ${OpenMP_C_LIBRARIES})
