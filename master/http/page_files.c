// The files of the web page as the build compressed them; empty in a master without the page.

#include "master/http/page.h"

// cmake/Webui.cmake generates page_files.inc: PAGE_FILE(1, "index.html", "its hash", bytes,
// "/path/of/the/compressed/file") ..
#define PAGE_FILE(number, name, tag, size, path)                                                   \
    __asm__(".pushsection .rodata\n"                                                               \
            ".globl page_file_" #number "\n"                                                       \
            "page_file_" #number ":\n"                                                             \
            ".incbin \"" path "\"\n"                                                               \
            ".popsection\n");                                                                      \
    extern const unsigned char page_file_##number[];
#include "page_files.inc"
#undef PAGE_FILE

const struct page_file page_files[] = {
#define PAGE_FILE(number, name, tag, size, path) {name, tag, page_file_##number, size},
#include "page_files.inc"
#undef PAGE_FILE
    {NULL, NULL, NULL, 0},
};
