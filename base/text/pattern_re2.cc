#include "base/text/pattern_re2.h"

#include <cstring>
#include <string>

#include <re2/re2.h>

struct re2_pattern {
    re2_pattern(const re2::StringPiece &text, const RE2::Options &options) : compiled(text, options)
    {
    }
    RE2 compiled;
};

namespace
{

re2_fault convert_error_code(RE2::ErrorCode code)
{
    switch (code) {
    case RE2::NoError:
        return RE2_NONE;
    case RE2::ErrorBadEscape:
        return RE2_ESCAPE;
    case RE2::ErrorBadCharClass:
        return RE2_CLASS;
    case RE2::ErrorBadCharRange:
        return RE2_RANGE;
    case RE2::ErrorMissingBracket:
        return RE2_NO_BRACKET;
    case RE2::ErrorMissingParen:
        return RE2_NO_PAREN;
    case RE2::ErrorUnexpectedParen:
        return RE2_PAREN;
    case RE2::ErrorTrailingBackslash:
        return RE2_BACKSLASH;
    case RE2::ErrorRepeatArgument:
        return RE2_NOTHING_REPEATED;
    case RE2::ErrorRepeatSize:
        return RE2_COUNT;
    case RE2::ErrorRepeatOp:
        return RE2_REPEATED_TWICE;
    case RE2::ErrorBadPerlOp:
        return RE2_GROUP;
    case RE2::ErrorBadUTF8:
        return RE2_UTF8;
    case RE2::ErrorBadNamedCapture:
        return RE2_GROUP_NAME;
    case RE2::ErrorPatternTooLarge:
        return RE2_LARGE;
    default:
        return RE2_OTHER;
    }
}

} // namespace

extern "C" re2_pattern *re2_compile(const char *text, size_t len, long memory, re2_fault *fault,
                                    char **fragment) noexcept
{
    RE2::Options options;
    options.set_log_errors(false);
    options.set_max_mem(memory);
    options.set_never_capture(true); // callers only need yes or no
    auto *p = new re2_pattern(re2::StringPiece(text, len), options);
    *fault = convert_error_code(p->compiled.error_code());
    *fragment = nullptr;
    if (p->compiled.ok())
        return p;
    *fragment = strdup(p->compiled.error_arg().c_str());
    delete p;
    return nullptr;
}

extern "C" int re2_program_size(const re2_pattern *p) noexcept
{
    return p->compiled.ProgramSize();
}

extern "C" bool re2_matches(const re2_pattern *p, const char *text, size_t len) noexcept
{
    const re2::StringPiece whole(text, len);
    return p->compiled.Match(whole, 0, len, RE2::UNANCHORED, nullptr, 0);
}

extern "C" void re2_free(re2_pattern *p) noexcept
{
    delete p;
}
