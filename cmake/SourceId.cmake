# cmake -DOUT=header.h -DNAME=MACRO -DFILES=a,b,c -P SourceId.cmake: writes a header
# with a hash of the sources.
string(REPLACE "," ";" files "${FILES}")
set(all "")
foreach(file ${files})
    file(SHA256 ${file} hash)
    string(APPEND all ${hash})
endforeach()
string(SHA256 id "${all}")
string(SUBSTRING ${id} 0 12 id)
file(WRITE ${OUT} "#define ${NAME} \"${id}\"\n")
