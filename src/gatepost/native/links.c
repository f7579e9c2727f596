/* Ordinary links: found in a text as `find_any_targets` of `mail.links` finds them, and made as `Links.add` makes them.
Part of `_speedups.c`.

A word of a text that has other characters than printable ASCII is given to Python, and so is a link whose normal form
is not its own spelling, or that may lead elsewhere than to its host. Nothing here recurses; each byte is looked at a
bounded number of times. */

#define LONGEST_LINKED_TEXT 400000
#define MOST_TARGETS 1000
#define LONGEST_WORD 4000
#define LONGEST_TARGET 4000
#define LONGEST_SHOWN 1000
#define LONGEST_NAME 253
#define LONGEST_LABEL 63
#define MOST_BRACKETS 8

enum { LINK_ERROR = -1, LINK_ODD = 0, LINK_DONE = 1 };

/* What a byte of a text may be to a link. */
enum { ENDS_WORD = 1, MARKS_LINK = 2, OPENS_BRACKET = 4, OPENS_ANGLE = 8, ENDS_LINK = 16, IS_FOREIGN = 32 };

static const uint8_t LINK_BYTES[256] = {
    [0 ... 8] = IS_FOREIGN, ['\t'] = ENDS_WORD, ['\n'] = ENDS_WORD, [11 ... 12] = IS_FOREIGN, ['\r'] = ENDS_WORD,
    [14 ... 31] = IS_FOREIGN, [' '] = ENDS_WORD, ['"'] = ENDS_LINK, ['('] = OPENS_BRACKET, ['.'] = MARKS_LINK,
    [':'] = MARKS_LINK, ['<'] = OPENS_ANGLE | ENDS_LINK, ['>'] = ENDS_LINK, ['['] = OPENS_BRACKET,
    ['{'] = OPENS_BRACKET, [127 ... 255] = IS_FOREIGN,
};

typedef struct {
    const unsigned char *text;
    size_t size;
    PyObject *endings, *endings_with_path, *match, *found;
} TargetSearch;

/* How many bytes of a character may be white space: of a blank, and of any character that is not ASCII; else 0. */
static size_t size_of_gap(const TargetSearch *search, size_t at)
{
    if (at >= search->size)
        return 0;
    unsigned char c = search->text[at];
    return c >= 0x80 ? size_of_character(c) : c == ' ' || (c >= 9 && c <= 13) || (c >= 28 && c <= 31);
}

static int starts_here(const TargetSearch *search, size_t at, size_t end, const char *word)
{
    for (; *word; word++, at++)
        if (at >= end || (search->text[at] | (*word >= 'a' ? 0x20 : 0)) != (unsigned char)*word)
            return 0;
    return 1;
}

/* Whether a bracket may begin a dot in brackets, which people write to be safe: `[.]`, `(dot)`. */
static int is_safe_dot(const TargetSearch *search, size_t at)
{
    for (int gaps = 0; gaps < 2; gaps++) {
        size_t from = at + 1 + (gaps ? size_of_gap(search, at + 1) : 0);
        size_t behind = from + (starts_here(search, from, search->size, ".") ? 1 : 3);
        if (behind == from + 3 && !starts_here(search, from, search->size, "dot"))
            continue;
        for (int more = 0; more < 2; more++) {
            size_t close = behind + (more ? size_of_gap(search, behind) : 0);
            if (close < search->size && memchr("])}", search->text[close], 3))
                return 1;
        }
    }
    return 0;
}

/* Whether an angle may begin a link that goes on in another line. */
static int may_be_folded(const TargetSearch *search, size_t at)
{
    at++;
    if (starts_here(search, at, search->size, "url:"))
        at += 4;
    for (int i = 0; i < 8; i++)
        at += size_of_gap(search, at);
    if (!starts_here(search, at, search->size, "http"))
        return 0;
    for (; at < search->size; at++) {
        if (search->text[at] == '<' || search->text[at] == '>')
            return 0;
        if (size_of_gap(search, at))
            return 1;
    }
    return 0;
}

/* Whether a character that ends at a place may be a digit of any script. */
static int may_be_digit(const unsigned char *text, size_t end)
{
    return end > 0 && (text[end - 1] >= 0x80 || (text[end - 1] >= '0' && text[end - 1] <= '9'));
}

/* Whether a dot or colon may belong to a link, in any text; every link has one that does. -1 for an error. */
static int may_mark_link(const TargetSearch *search, size_t at)
{
    const unsigned char *text = search->text;
    if (text[at] == ':')
        return is_link_colon(text, search->size, at);
    int result = is_link_dot(text, search->size, at, search->endings_with_path);
    if (result)
        return result;
    /* Digits of other scripts behind `www`, and the sign of Kelvin, whose small letter is a k. */
    size_t back = at;
    for (int i = 0; i < 2 && may_be_digit(text, back); i++) {
        back--;
        while (back > 0 && is_continuation(text[back]))
            back--;
        if (back > 0 && (text[back - 1] | 32) == 'w')
            return 1;
    }
    for (size_t i = at + 1; i <= at + LONGEST_ENDING && i + 2 < search->size; i++)
        if (text[i] == 0xE2 && text[i + 1] == 0x84 && text[i + 2] == 0xAA)
            return 1;
    return 0;
}

/* ---------------------------------------------------------------- what is a link in a word */

/* What was matched: from where to where, how many letters the scheme has (0 for none), and whether it is a bare host
whose ending must be known, with a path or without one. */
typedef struct {
    size_t start, end, scheme, ending, ending_size;
    int is_bare, has_path;
} WrittenLink;

/* Whether what begins here is a scheme, and more than it: `http://x`, `hxxps://x`, `ftp:\x`. */
static size_t scheme_size(const TargetSearch *search, size_t at, size_t end)
{
    const unsigned char *text = search->text + at;
    size_t size = 0;
    if (starts_here(search, at, end, "ftp"))
        size = 3;
    else if (end - at >= 4 && (text[0] | 32) == 'h' && (text[3] | 32) == 'p'
             && ((text[1] == '*' && text[2] == '*') || starts_here(search, at + 1, end, "tt")
                 || starts_here(search, at + 1, end, "xx")))
        size = end - at > 4 && (text[4] | 32) == 's' ? 5 : 4;
    if (!size || size >= end - at || text[size] != ':')
        return 0;
    size_t slashes = 0;
    while (slashes < 4 && size + 1 + slashes < end - at && memchr("/\\", text[size + 1 + slashes], 2))
        slashes++;
    return slashes && size + 1 + slashes < end - at ? size : 0;
}

/* Whether `www.`, `www2.` or `www22.` begins here, and more than it. */
static int is_www(const TargetSearch *search, size_t at, size_t start, size_t end)
{
    if (!starts_here(search, at, end, "www"))
        return 0;
    unsigned char before = at > start ? search->text[at - 1] : ' ';
    if (is_word_character(before) || memchr("_@.-", before, 4))
        return 0;
    at += 3;
    for (int i = 0; i < 2 && at < end && search->text[at] >= '0' && search->text[at] <= '9'; i++)
        at++;
    return at + 1 < end && search->text[at] == '.';
}

static size_t label_size(const TargetSearch *search, size_t at, size_t end)
{
    size_t size = 0;
    while (size < LONGEST_LABEL && at + size < end
           && (is_word_character(search->text[at + size]) || search->text[at + size] == '-'))
        size++;
    return size;
}

/* Match a bare host with its path: `example.com/x`. */
static int match_host(const TargetSearch *search, size_t at, size_t start, size_t end, WrittenLink *link)
{
    const unsigned char *text = search->text;
    size_t size = label_size(search, at, end), place = at + size;
    unsigned char before = at > start ? text[at - 1] : ' ';
    int labels = 0;
    if (!size || is_word_character(before) || memchr("_@./:=%&?#\\-", before, 12))
        return 0;
    while (labels < 8 && place < end && text[place] == '.' && (size = label_size(search, place + 1, end))) {
        link->ending = place + 1;
        link->ending_size = size;
        place += 1 + size;
        labels++;
    }
    if (!labels || (place < end && (is_word_character(text[place]) || memchr("_@-", text[place], 3))))
        return 0;
    link->is_bare = 1;
    link->has_path = place + 1 < end && text[place] == '/';
    link->end = link->has_path ? end : place;
    return 1;
}

/* Match the expression `_LINK` at one place of a run of characters that a link may have. */
static int match_link(const TargetSearch *search, size_t at, size_t start, size_t end, WrittenLink *link)
{
    *link = (WrittenLink){.start = at, .end = end};
    if ((link->scheme = scheme_size(search, at, end)))
        return 1;
    if (starts_here(search, at, end, "mailto:") && at + 7 < end)
        return 1;
    return is_www(search, at, start, end) || match_host(search, at, start, end, link);
}

static size_t count_bytes(const unsigned char *text, size_t size, unsigned char sought)
{
    size_t count = 0;
    for (size_t i = 0; i < size; i++)
        count += text[i] == sought;
    return count;
}

/* The size of a link without the punctuation around it, as `_trim` cuts it; SIZE_MAX where too many brackets end it. */
static size_t trimmed_size(const unsigned char *text, size_t size)
{
    for (int turns = 0; turns <= MOST_BRACKETS; turns++) {
        while (size && memchr(".,;:!?'`*_~|", text[size - 1], 12))
            size--;
        unsigned char close = size ? text[size - 1] : 0;
        unsigned char open = close == ')' ? '(' : close == ']' ? '[' : close == '}' ? '{' : 0;
        if (!open)
            return size;
        size_t closed = count_bytes(text, size, close), opened = count_bytes(text, size, open);
        if (closed <= opened)
            return size;
        for (size_t surplus = closed - opened; surplus && text[size - 1] == close; surplus--)
            size--;
    }
    return SIZE_MAX;
}

/* Whether the ending of a bare host is one that hosts have. -1 for an error. */
static int is_known_ending(const TargetSearch *search, const WrittenLink *link)
{
    char ending[LONGEST_ENDING];
    if (link->ending_size > LONGEST_ENDING)
        return 0;
    for (size_t i = 0; i < link->ending_size; i++) {
        unsigned char c = search->text[link->ending + i];
        ending[i] = (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
    }
    PyObject *word = PyUnicode_DecodeASCII(ending, (Py_ssize_t)link->ending_size, NULL);
    int result = word ? PySet_Contains(link->has_path ? search->endings_with_path : search->endings, word) : -1;
    Py_XDECREF(word);
    return result;
}

/* Add the target of a link with the scheme that a browser would see. */
static int add_target(TargetSearch *search, const WrittenLink *link)
{
    const unsigned char *text = search->text + link->start;
    size_t size = trimmed_size(text, link->end - link->start);
    if (size == SIZE_MAX)
        return LINK_ODD;
    if (!size)
        return LINK_DONE;
    const char *prefix = "";
    if (link->scheme)
        prefix = link->scheme == 3 ? "ftp" : link->scheme == 5 ? "https" : "http";
    else if (!starts_here(search, link->start, link->start + size, "mailto:"))
        prefix = "http://";
    size_t before = strlen(prefix);
    text += link->scheme;
    size -= link->scheme;
    PyObject *target = PyUnicode_New((Py_ssize_t)(before + size), 127);
    if (!target)
        return LINK_ERROR;
    memcpy(PyUnicode_1BYTE_DATA(target), prefix, before);
    memcpy(PyUnicode_1BYTE_DATA(target) + before, text, size);
    int result = PyList_Append(search->found, target);
    Py_DECREF(target);
    return result < 0 ? LINK_ERROR : LINK_DONE;
}

/* Find the links of a word of printable ASCII. */
static int match_plain_word(TargetSearch *search, size_t start, size_t end)
{
    size_t at = start, run = start;
    while (at < end) {
        if (at >= run) {
            while (at < end && LINK_BYTES[search->text[at]] & ENDS_LINK)
                at++;
            for (run = at; run < end && !(LINK_BYTES[search->text[run]] & ENDS_LINK);)
                run++;
            if (at == end)
                break;
        }
        WrittenLink link;
        if (!match_link(search, at, start, run, &link)) {
            at++;
            continue;
        }
        int result = link.is_bare ? is_known_ending(search, &link) : 1;
        if (result > 0 && (result = add_target(search, &link)) == LINK_ODD)
            return LINK_ODD;
        if (result < 0)
            return LINK_ERROR;
        at = link.end;
    }
    return LINK_DONE;
}

/* Find the links of a word, by Python where it is odd. */
static int match_word(TargetSearch *search, size_t start, size_t end)
{
    int is_odd = end - start > LONGEST_WORD;
    for (size_t i = start; i < end && !is_odd; i++) {
        const unsigned char *text = search->text + i;
        is_odd = LINK_BYTES[*text] & IS_FOREIGN
                 || (*text == ':' && ((i > start && text[-1] == '[') || (i + 1 < end && text[1] == ']')));
    }
    Py_ssize_t before = PyList_GET_SIZE(search->found);
    int result = is_odd ? LINK_ODD : match_plain_word(search, start, end);
    if (result != LINK_ODD)
        return result;
    PyObject *word = PyUnicode_DecodeUTF8((const char *)search->text + start, (Py_ssize_t)(end - start), NULL);
    PyObject *targets = word ? PyObject_CallOneArg(search->match, word) : NULL;
    Py_XDECREF(word);
    if (targets && !PyList_Check(targets))
        PyErr_SetString(PyExc_TypeError, "targets are a list");
    else if (targets)
        result = PyList_SetSlice(search->found, before, PyList_GET_SIZE(search->found), targets);
    Py_XDECREF(targets);
    return PyErr_Occurred() ? LINK_ERROR : LINK_DONE;
}

/* Go through a text, word by word. LINK_ODD where the text as a whole is not ordinary. */
static int search_targets(TargetSearch *search)
{
    size_t first = 0;
    for (size_t at = 0; at < search->size; at++) {
        int kind = LINK_BYTES[search->text[at]];
        if (!(kind & (ENDS_WORD | MARKS_LINK | OPENS_BRACKET | OPENS_ANGLE)))
            continue;
        if (kind & ENDS_WORD) {
            first = at + 1;
        } else if (kind & OPENS_BRACKET) {
            if (is_safe_dot(search, at))
                return LINK_ODD;
        } else if (kind & OPENS_ANGLE) {
            if (may_be_folded(search, at))
                return LINK_ODD;
        } else {
            int is_marked = may_mark_link(search, at);
            if (is_marked < 0)
                return LINK_ERROR;
            if (!is_marked)
                continue;
            size_t end = at;
            for (; end < search->size && !(LINK_BYTES[search->text[end]] & ENDS_WORD); end++)
                if ((LINK_BYTES[search->text[end]] & OPENS_BRACKET && is_safe_dot(search, end))
                    || (search->text[end] == '<' && may_be_folded(search, end)))
                    return LINK_ODD;
            if (match_word(search, first, end) < 0)
                return LINK_ERROR;
            if (PyList_GET_SIZE(search->found) > MOST_TARGETS)
                return LINK_ODD;
            first = end + 1;
            at = end;
        }
    }
    return LINK_DONE;
}

/* find_targets(text, endings, endings_with_path, match): the links of a text; None for a text that is not ordinary. */
static PyObject *find_targets(PyObject *self, PyObject *args)
{
    PyObject *source;
    TargetSearch search;
    (void)self;
    if (!PyArg_ParseTuple(args, "UO!O!O", &source, &PyFrozenSet_Type, &search.endings, &PyFrozenSet_Type,
                          &search.endings_with_path, &search.match))
        return NULL;
    if (PyUnicode_GET_LENGTH(source) > LONGEST_LINKED_TEXT)
        Py_RETURN_NONE;
    Py_ssize_t size;
    search.text = (const unsigned char *)PyUnicode_AsUTF8AndSize(source, &size);
    if (!search.text) {
        if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))
            return NULL;
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    search.size = (size_t)size;
    if (!(search.found = PyList_New(0)))
        return NULL;
    int result = search_targets(&search);
    if (result == LINK_DONE)
        return search.found;
    Py_DECREF(search.found);
    return result == LINK_ODD ? Py_NewRef(Py_None) : NULL;
}

/* ---------------------------------------------------------------- what a link is made of */

/* Where in an address a character stands for itself, in the normal form of WHATWG. */
enum { IN_HOST = 1, IN_PATH = 2, IN_QUERY = 4, IN_FRAGMENT = 8, IN_REST = IN_PATH | IN_QUERY | IN_FRAGMENT };

static const uint8_t URL_BYTES[256] = {
    ['0' ... '9'] = IN_HOST | IN_REST, ['A' ... 'Z'] = IN_HOST | IN_REST, ['a' ... 'z'] = IN_HOST | IN_REST,
    ['-'] = IN_HOST | IN_REST, ['.'] = IN_HOST | IN_REST, ['_'] = IN_HOST | IN_REST, ['~'] = IN_REST, ['!'] = IN_REST,
    ['$'] = IN_REST, ['&'] = IN_REST, ['('] = IN_REST, [')'] = IN_REST, ['*'] = IN_REST, ['+'] = IN_REST,
    [','] = IN_REST, [';'] = IN_REST, ['='] = IN_REST, [':'] = IN_REST, ['@'] = IN_REST, ['%'] = IN_REST,
    ['/'] = IN_REST, ['?'] = IN_QUERY | IN_FRAGMENT, ['['] = IN_QUERY, [']'] = IN_QUERY, ['{'] = IN_QUERY,
    ['}'] = IN_QUERY, ['|'] = IN_QUERY, ['\''] = IN_PATH | IN_FRAGMENT,
};

/* The parts of an ordinary address, as places in it; `has_path` where a slash need not be added behind the host. */
typedef struct {
    const unsigned char *text;
    size_t size, host, host_end;
    int has_path, has_capital;
} PlainUrl;

/* Read the host: labels of ASCII, the last of which begins with a letter. */
static int read_plain_host(PlainUrl *url)
{
    const unsigned char *text = url->text;
    size_t at = url->host, label = at;
    for (; at < url->size && URL_BYTES[text[at]] & IN_HOST; at++) {
        if (text[at] == '.') {
            if (at == label || at - label > LONGEST_LABEL)
                return 0;
            label = at + 1;
        } else if (text[at] >= 'A' && text[at] <= 'Z') {
            url->has_capital = 1;
        } else if (text[at] == '-' && at > url->host + 1 && (text[at - 1] | 32) == 'n' && (text[at - 2] | 32) == 'x') {
            return 0; /* `xn--`: the label must be decoded */
        }
    }
    url->host_end = at;
    if (at == label || at - label > LONGEST_LABEL || at - url->host > LONGEST_NAME)
        return 0;
    unsigned char first = text[label] | 32;
    return first >= 'a' && first <= 'z' && (at == url->size || memchr("/?#", text[at], 3));
}

/* Whether what follows a `?` or `#` may hold an address, plain or encoded. */
static int may_carry_url(const unsigned char *text, size_t size)
{
    for (size_t i = 0; i + 2 < size; i++)
        if ((text[i] == 'h' && i + 3 < size && !memcmp(text + i, "http", 4))
            || (text[i] == 'a' && i + 4 < size && !memcmp(text + i, "aHR0c", 5))
            || (text[i] == '%' && text[i + 1] == '6' && text[i + 2] == '8'))
            return 1;
    return 0;
}

/* Read an address whose normal form is its own spelling, but for the case of the host and a slash behind it. */
static int read_plain_url(PlainUrl *url)
{
    const unsigned char *text = url->text;
    if (url->size < 8 || url->size > LONGEST_TARGET || memcmp(text, "http", 4))
        return 0;
    url->host = text[4] == 's' ? 8 : 7;
    if (memcmp(text + url->host - 3, "://", 3) || !read_plain_host(url))
        return 0;
    size_t at = url->host_end, mark = 0;
    url->has_path = at < url->size && text[at] == '/';
    int place = IN_PATH;
    for (; at < url->size; at++) {
        unsigned char c = text[at];
        if ((c == '?' && place == IN_PATH) || (c == '#' && place != IN_FRAGMENT)) {
            place = c == '?' ? IN_QUERY : IN_FRAGMENT;
            mark = mark ? mark : at;
        } else if (!(URL_BYTES[c] & place)) {
            return 0;
        } else if (c == '/' && place == IN_PATH && at + 1 < url->size
                   && (text[at + 1] == '.' || (text[at + 1] == '%' && at + 2 < url->size && text[at + 2] == '2'))) {
            return 0; /* `/../`, `/%2e/`: a browser goes up */
        }
    }
    return !mark || !may_carry_url(text + mark, url->size - mark);
}

static PyObject *make_host(const PlainUrl *url)
{
    size_t size = url->host_end - url->host;
    PyObject *host = PyUnicode_New((Py_ssize_t)size, 127);
    for (size_t i = 0; host && i < size; i++) {
        unsigned char c = url->text[url->host + i];
        PyUnicode_1BYTE_DATA(host)[i] = c >= 'A' && c <= 'Z' ? c + 32 : c;
    }
    return host;
}

/* The normal form of an address; the target itself where it has that. */
static PyObject *make_href(const PlainUrl *url, PyObject *target, PyObject *host)
{
    if (url->has_path && !url->has_capital)
        return Py_NewRef(target);
    PyObject *href = PyUnicode_New((Py_ssize_t)(url->size + !url->has_path), 127);
    if (!href)
        return NULL;
    unsigned char *out = PyUnicode_1BYTE_DATA(href);
    memcpy(out, url->text, url->host);
    memcpy(out + url->host, PyUnicode_1BYTE_DATA(host), url->host_end - url->host);
    out += url->host_end;
    if (!url->has_path)
        *out++ = '/';
    memcpy(out, url->text + url->host_end, url->size - url->host_end);
    return href;
}

/* What links are made with, and the host of the last one, which is often that of the next. */
typedef struct {
    PyObject *where, *found, *make, *is_wrapping, *text_source, *host;
    Py_ssize_t added;
} LinkMaker;

typedef struct {
    PyObject *source, *target, *shown, *is_hidden;
} LinkParts;

/* Take a target that stands in a text, or an event of a page that links. */
static int take_parts(const LinkMaker *maker, PyObject *item, LinkParts *parts)
{
    if (PyUnicode_Check(item)) {
        *parts = (LinkParts){maker->text_source, item, item, Py_False};
    } else {
        if (!PyTuple_Check(item) || PyTuple_GET_SIZE(item) != 4)
            return 0;
        *parts = (LinkParts){PyTuple_GET_ITEM(item, 0), PyTuple_GET_ITEM(item, 1), PyTuple_GET_ITEM(item, 2),
                             PyTuple_GET_ITEM(item, 3)};
        if ((parts->source != source_html && parts->source != source_image && parts->source != source_css)
            || !PyUnicode_Check(parts->target) || !PyUnicode_Check(parts->shown) || !PyBool_Check(parts->is_hidden))
            return 0;
    }
    return PyUnicode_IS_ASCII(parts->target) && PyUnicode_GET_LENGTH(parts->shown) <= LONGEST_SHOWN;
}

/* Keep one link under its key, made of its address. */
static int keep_link(LinkMaker *maker, const LinkParts *parts, const PlainUrl *url, PyObject *key)
{
    PyObject *nothing = PyTuple_New(0), *href = make_href(url, parts->target, maker->host), *link = NULL, *kept = NULL;
    if (nothing && href) {
        PyObject *given[] = {parts->target, href, maker->host, parts->shown, maker->where, parts->source, nothing,
                             parts->is_hidden};
        link = PyObject_Vectorcall(maker->make, given, 8, NULL);
    }
    if (link)
        kept = PyTuple_Pack(1, link);
    int result = kept ? PyDict_SetItem(maker->found, key, kept) : -1;
    maker->added += result == 0;
    Py_XDECREF(nothing);
    Py_XDECREF(href);
    Py_XDECREF(link);
    Py_XDECREF(kept);
    return result < 0 ? LINK_ERROR : LINK_DONE;
}

/* Remember the host of an address; LINK_ODD where links to it may lead elsewhere. */
static int take_host(LinkMaker *maker, const PlainUrl *url)
{
    size_t size = url->host_end - url->host;
    if (maker->host && !url->has_capital && (size_t)PyUnicode_GET_LENGTH(maker->host) == size
        && !memcmp(PyUnicode_1BYTE_DATA(maker->host), url->text + url->host, size))
        return LINK_DONE;
    PyObject *host = make_host(url);
    if (!host)
        return LINK_ERROR;
    PyObject *answer = PyObject_CallOneArg(maker->is_wrapping, host);
    int is_wrapping = answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    if (is_wrapping) {
        Py_DECREF(host);
        return is_wrapping < 0 ? LINK_ERROR : LINK_ODD;
    }
    Py_XSETREF(maker->host, host);
    return LINK_DONE;
}

/* Make a link of an item; LINK_ODD where that is left to Python. */
static int make_link(LinkMaker *maker, PyObject *item)
{
    LinkParts parts;
    if (!take_parts(maker, item, &parts))
        return LINK_ODD;
    PlainUrl url = {.text = PyUnicode_1BYTE_DATA(parts.target), .size = (size_t)PyUnicode_GET_LENGTH(parts.target)};
    if (!read_plain_url(&url))
        return LINK_ODD;
    int result = take_host(maker, &url);
    if (result != LINK_DONE)
        return result;
    PyObject *key = PyTuple_Pack(4, maker->where, parts.target, parts.shown, parts.source);
    int is_known = key ? PyDict_Contains(maker->found, key) : -1;
    result = is_known < 0 ? LINK_ERROR : is_known ? LINK_DONE : keep_link(maker, &parts, &url, key);
    Py_XDECREF(key);
    return result;
}

/* make_links(items, where, source, found, room, make, is_wrapping, read_odd): keep the ordinary links among items in
`found`; the others go to `read_odd` with the number of links that were kept since it was called last, and it returns
the room that is left. How many were kept since the last call. */
static PyObject *make_links(PyObject *self, PyObject *args)
{
    LinkMaker maker = {.host = NULL};
    PyObject *items, *read_odd;
    Py_ssize_t room;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!UUO!nOOO", &PyList_Type, &items, &maker.where, &maker.text_source, &PyDict_Type,
                          &maker.found, &room, &maker.make, &maker.is_wrapping, &read_odd))
        return NULL;
    int result = LINK_DONE;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items) && result != LINK_ERROR; i++) {
        PyObject *item = Py_NewRef(PyList_GET_ITEM(items, i));
        result = maker.added < room ? make_link(&maker, item) : LINK_ODD;
        if (result == LINK_ODD) {
            PyObject *left = PyObject_CallFunction(read_odd, "On", item, maker.added);
            room = left ? PyLong_AsSsize_t(left) : -1;
            maker.added = 0;
            if (!left || (room == -1 && PyErr_Occurred()))
                result = LINK_ERROR;
            Py_XDECREF(left);
        }
        Py_DECREF(item);
    }
    Py_XDECREF(maker.host);
    return result == LINK_ERROR ? NULL : PyLong_FromSsize_t(maker.added);
}
