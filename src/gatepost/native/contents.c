/* What the bytes of a text hold, at a glance: whether any of the readers of files could find something. Part of
`_speedups.c`. */

/* The same numbers as in `mail/message.py`. */
enum { EMBEDS = 1, DRAWS = 2, OPENS = 4, IS_TEXT = 8, IS_HTML = 16 };

#define HEAD 1024
/* The same numbers as in `files/qr_codes.py`. */
#define MIN_CELLS 120
#define MANY_SIGNS 200
#define MAX_DRAWN_SOURCE 2000000

/* What begins with a character, for the passes below: most characters begin nothing that they look for. */
enum { OF_MARK = 1, OF_CELL = 2, OF_ELEMENT = 4 };

static unsigned char mark_starts[256];

static void fill_mark_starts(void)
{
    static const char *const characters[] = {"<&-;#@XPbBwWsSgGoOdD\xe2", "<#@X&bg\xe2", "#bBcC<"};
    for (int i = 0; i < 3; i++)
        for (const char *each = characters[i]; *each; each++)
            mark_starts[(unsigned char)*each] |= (unsigned char)(1 << i);
}

static int has_at(const unsigned char *bytes, size_t size, size_t at, const char *mark)
{
    size_t length = strlen(mark);
    return size - at >= length && !memcmp(bytes + at, mark, length);
}

/* The same in any case; the mark is in small letters. */
static int has_any_case_at(const unsigned char *bytes, size_t size, size_t at, const char *mark)
{
    for (; *mark; mark++, at++)
        if (at >= size || (bytes[at] >= 'A' && bytes[at] <= 'Z' ? bytes[at] + 32 : bytes[at]) != (unsigned char)*mark)
            return 0;
    return 1;
}

/* Whether bytes are UTF-8 without characters that nobody writes; at the end of the head a character may be cut. */
static int reads_as_text(const unsigned char *bytes, size_t size)
{
    size_t end = size < HEAD ? size : HEAD;
    for (size_t at = 0; at < end;) {
        unsigned char c = bytes[at++];
        if (c < 0x80) {
            if (c < 9 || (c >= 0x0e && c <= 0x1a) || (c >= 0x1c && c <= 0x1f) || c == 0x7f)
                return 0;
            continue;
        }
        int more = c >= 0xc2 && c <= 0xdf ? 1 : c >= 0xe0 && c <= 0xef ? 2 : c >= 0xf0 && c <= 0xf4 ? 3 : 0;
        if (!more)
            return 0;
        unsigned char least = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80, most = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
        for (; more; more--, least = 0x80, most = 0xbf) {
            if (at == end)
                return size > HEAD;
            if (bytes[at] < least || bytes[at] > most)
                return 0;
            at++;
        }
    }
    return 1;
}

/* Whether the checksum of a tar's first header could be read. */
static int may_be_tar(const unsigned char *bytes, size_t size)
{
    if (size < 512)
        return 0;
    int is_number = 1;
    for (size_t at = 148; at < 156; at++)
        is_number = is_number && (!bytes[at] || strchr(" \t\n\r\v\f01234567_+-oO", bytes[at]));
    return is_number || bytes[148] == 0x80 || !memcmp(bytes + 257, "ustar", 5);
}

/* IS_TEXT or IS_HTML for what can be nothing else by its first bytes, but for the marks of `files.file_types`; else 0. */
static int sort_of_text(const unsigned char *bytes, size_t size)
{
    size_t end = size < HEAD ? size : HEAD, at = 0;
    if (!size || bytes[0] >= 0x80 || !reads_as_text(bytes, size) || memmem(bytes, end, "%PDF-", 5)
        || has_at(bytes, size, 0, "%FDF-") || has_at(bytes, size, 0, "RIFF") || (size > 4 && has_at(bytes, size, 4, "ftyp")))
        return 0;
    while (at < end && (bytes[at] == ' ' || bytes[at] == '\t' || bytes[at] == '\r' || bytes[at] == '\n'))
        at++;
    if (at == end)
        return IS_TEXT;
    if (bytes[at] >= 0x80)
        return 0;
    if (bytes[at] == '<') {
        static const char *pages[] = {"<!doctype html", "<html", "<head", "<body"};
        static const char *others[] = {"<script", "<svg", "<?xml"};
        int is_page = 0;
        for (size_t i = 0; i < sizeof pages / sizeof *pages; i++)
            is_page |= has_any_case_at(bytes, end, at, pages[i]);
        if (is_page)
            return at + 7 < end && bytes[at + 7] == ':' ? 0 : IS_HTML;
        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
            if (has_any_case_at(bytes, end, at, others[i]))
                return 0;
    }
    if (has_any_case_at(bytes, end, at, "from "))
        return 0;
    /* A name and a colon: it may be a saved message. */
    size_t name = at;
    while (name < end && bytes[name] > ' ' && bytes[name] < 0x7f && bytes[name] != ':')
        name++;
    size_t colon = name;
    while (colon < end && (bytes[colon] == ' ' || bytes[colon] == '\t'))
        colon++;
    return name > at && name - at <= 60 && colon < end && bytes[colon] == ':' ? 0 : IS_TEXT;
}

/* content_signs(content): which readers of files may find something in the bytes of a text, and what it is. */
static PyObject *content_signs(PyObject *self, PyObject *content)
{
    (void)self;
    if (!PyBytes_Check(content)) {
        PyErr_SetString(PyExc_TypeError, "bytes are wanted");
        return NULL;
    }
    const unsigned char *bytes = (const unsigned char *)PyBytes_AS_STRING(content);
    size_t size = (size_t)PyBytes_GET_SIZE(content), tags = 0, blocks = 0, references = 0, pairs[3] = {0};
    int signs = sort_of_text(bytes, size);
    if (size && (bytes[0] >= 0x80 || has_at(bytes, size, 0, "\x78\x9f\x3e\x22")))
        signs |= EMBEDS;
    if (may_be_tar(bytes, size))
        signs |= OPENS;
    for (size_t at = 0; at < size; at++) {
        if (!(mark_starts[bytes[at]] & OF_MARK))
            continue;
        unsigned char next = at + 1 < size ? bytes[at + 1] | 0x20 : 0;
        switch (bytes[at]) {
        case '<':
            tags++;
            if (next == 's' && has_at(bytes, size, at, "<svg"))
                signs |= DRAWS;
            break;
        case '&':
            references += at + 1 < size && bytes[at + 1] == '#';
            break;
        case 0xe2:
            blocks++;
            break;
        case '#': case '@': case 'X':
            if (at + 1 < size && bytes[at + 1] == bytes[at]) {
                pairs[bytes[at] == '#' ? 0 : bytes[at] == '@' ? 1 : 2]++;
                at++;
            }
            break;
        case '-':
            if (next == '-' && has_at(bytes, size, at, "-----BEGIN PGP "))
                signs |= EMBEDS | OPENS;
            break;
        case ';':
            if (next == 'b' && has_any_case_at(bytes, size, at, ";base64,"))
                signs |= OPENS;
            break;
        case 'P':
            if (has_at(bytes, size, at, "PK\x05\x06"))
                signs |= OPENS;
            break;
        case 'b': case 'B':
            if (next == 'e' && has_any_case_at(bytes, size, at, "begin"))
                signs |= EMBEDS;
            else if (next == 'o' && has_any_case_at(bytes, size, at, "box-shadow"))
                signs |= DRAWS;
            break;
        case 'w': case 'W':
            if (next == 'i' && has_any_case_at(bytes, size, at, "with binhex"))
                signs |= EMBEDS;
            break;
        case 's': case 'S':
            if (next == 'c' && has_any_case_at(bytes, size, at, "script"))
                signs |= OPENS;
            else if (next == 'v' && has_any_case_at(bytes, size, at, "svg+xml"))
                signs |= DRAWS;
            break;
        case 'g': case 'G':
            if (next == 'r' && has_any_case_at(bytes, size, at, "gradient("))
                signs |= DRAWS;
            break;
        case 'o': case 'O':
            if (next == 'n' && (has_any_case_at(bytes, size, at, "onload") || has_any_case_at(bytes, size, at, "onerror")))
                signs |= OPENS;
            break;
        default:
            if (next == 'a' && has_any_case_at(bytes, size, at, "data:image"))
                signs |= OPENS;
        }
    }
    if (tags >= 2 * MIN_CELLS || blocks >= MIN_CELLS / 2 || references >= MIN_CELLS || pairs[0] >= MANY_SIGNS
        || pairs[1] >= MANY_SIGNS || pairs[2] >= MANY_SIGNS)
        signs |= DRAWS;
    return PyLong_FromLong(signs);
}

static int has_mark_at(int kind, const void *data, Py_ssize_t size, Py_ssize_t at, const char *mark)
{
    for (; *mark; mark++, at++) {
        Py_UCS4 c = at < size ? PyUnicode_READ(kind, data, at) : 0;
        if ((c >= 'A' && c <= 'Z' ? c + 32 : c) != (Py_UCS4)(unsigned char)*mark)
            return 0;
    }
    return 1;
}

/* has_latent_marks(text): whether a page may hold what would act once it is read a second time, in any case. */
static PyObject *has_latent_marks(PyObject *self, PyObject *text)
{
    (void)self;
    if (!PyUnicode_Check(text)) {
        PyErr_SetString(PyExc_TypeError, "a text is wanted");
        return NULL;
    }
    int kind = PyUnicode_KIND(text);
    const void *data = PyUnicode_DATA(text);
    Py_ssize_t size = PyUnicode_GET_LENGTH(text);
    for (Py_ssize_t at = 0; at + 1 < size; at++) {
        Py_UCS4 c = PyUnicode_READ(kind, data, at);
        if (c != 's' && c != 'S' && c != '&' && c != 'o' && c != 'O' && c != 'p' && c != 'P')
            continue;
        Py_UCS4 next = PyUnicode_READ(kind, data, at + 1) | 0x20;
        int found = 0;
        if (c == '&')
            found = next == 'l' && has_mark_at(kind, data, size, at, "&lt;script");
        else if (next == 'n')
            found = has_mark_at(kind, data, size, at, "onerror") || has_mark_at(kind, data, size, at, "onload")
                    || has_mark_at(kind, data, size, at, "onmouse");
        else if (next == 'c')
            found = has_mark_at(kind, data, size, at, "script:");
        else if (next == 'r')
            found = has_mark_at(kind, data, size, at, "pression(");
        if (found)
            Py_RETURN_TRUE;
    }
    Py_RETURN_FALSE;
}

/* ---------------------------------------------------------------- tags of a page as it was sent */

typedef struct {
    int kind;
    const void *data;
    Py_ssize_t size;
} Page;

static Py_UCS4 letter_at(const Page *page, Py_ssize_t at)
{
    return at < page->size ? PyUnicode_READ(page->kind, page->data, at) : 0;
}

static int is_page_blank(Py_UCS4 c)
{
    return c == '\t' || c == '\n' || c == '\f' || c == '\r' || c == ' ';
}

static int is_page_letter(Py_UCS4 c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static Py_ssize_t skip_page_blanks(const Page *page, Py_ssize_t at)
{
    while (at < page->size && is_page_blank(letter_at(page, at)))
        at++;
    return at;
}

/* The place after one attribute, as `_ATTRIBUTE` of `mail/html/limits.py` reads it. */
static Py_ssize_t skip_attribute(const Page *page, Py_ssize_t at)
{
    for (at++; at < page->size; at++) {
        Py_UCS4 c = letter_at(page, at);
        if (is_page_blank(c) || c == '/' || c == '>' || c == '=')
            break;
    }
    Py_ssize_t value = skip_page_blanks(page, at);
    if (value >= page->size || letter_at(page, value) != '=')
        return at;
    at = skip_page_blanks(page, value + 1);
    Py_UCS4 quote = at < page->size ? letter_at(page, at) : 0;
    if (quote == '"' || quote == '\'') {
        for (at++; at < page->size && letter_at(page, at) != quote; at++)
            ;
        return at < page->size ? at + 1 : at;
    }
    while (at < page->size && !is_page_blank(letter_at(page, at)) && letter_at(page, at) != '>')
        at++;
    return at;
}

/* Whether an element of this name formats text; Unicode's sign for kelvin is a letter k in small letters. */
static int is_formatting(const Page *page, Py_ssize_t start, Py_ssize_t end)
{
    static const char *names[] = {"b", "big", "code", "em", "font", "i", "s", "small", "strike", "strong", "tt", "u", "nobr"};
    char name[8];
    if (end - start >= (Py_ssize_t)sizeof name)
        return 0;
    for (Py_ssize_t at = start; at < end; at++) {
        Py_UCS4 c = letter_at(page, at);
        name[at - start] = c == 0x212A ? 'k' : c >= 0x80 ? '?' : c >= 'A' && c <= 'Z' ? (char)(c + 32) : (char)c;
    }
    name[end - start] = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i]) && strlen(names[i]) == (size_t)(end - start))
            return 1;
    return 0;
}

/* Above so many tags the nesting is looked at, and not how many format text. */
#define SOME_TAGS 6000

/* is_harmless(html, longest, most): whether every start of a tag begins a tag of its own with less than so many
characters of attributes, and of few tags those that format text times all tags are at most so many. */
static PyObject *is_harmless(PyObject *self, PyObject *args)
{
    PyObject *html;
    Py_ssize_t longest, most;
    (void)self;
    if (!PyArg_ParseTuple(args, "Unn", &html, &longest, &most))
        return NULL;
    Page page = {PyUnicode_KIND(html), PyUnicode_DATA(html), PyUnicode_GET_LENGTH(html)};
    Py_ssize_t tags = 0, starts = 0, formatting = 0, read = 0;
    for (Py_ssize_t at = 0; at < page.size; at++) {
        if (letter_at(&page, at) != '<')
            continue;
        Py_ssize_t name = at + 1, first = letter_at(&page, name) == '/' ? name + 1 : name;
        if (!is_page_letter(letter_at(&page, first)))
            continue;
        starts++;
        if (at < read)
            continue;
        tags++;
        Py_ssize_t end = first + 1;
        for (; end < page.size; end++) {
            Py_UCS4 c = letter_at(&page, end);
            if (is_page_blank(c) || c == '/' || c == '>')
                break;
        }
        formatting += first == name && is_formatting(&page, name, end);
        read = end;
        while (read < page.size && letter_at(&page, read) != '>') {
            Py_UCS4 c = letter_at(&page, read);
            read = is_page_blank(c) || c == '/' ? read + 1 : skip_attribute(&page, read);
        }
        if (read - end >= longest)
            Py_RETURN_FALSE;
    }
    return PyBool_FromLong(tags == starts && (tags > SOME_TAGS || !tags || formatting <= most / tags));
}

enum { NO_CELLS, HAS_CELLS, SHORT_CELLS };

/* Whether an element of this name may be a cell of a drawing. The name has letters, digits and underscores alone, so that
one bit makes small letters of it. */
static int is_cell_name(const unsigned char *name, size_t size)
{
    unsigned char first = size ? name[0] | 0x20 : 0, second = size > 1 ? name[1] | 0x20 : 0;
    switch (size) {
    case 1:
        return first == 'b' || first == 'i' || first == 'p' || first == 'u' || first == 's' || first == 'a';
    case 2:
        return (first == 't' && (second == 'd' || second == 'h')) || (first == 'e' && second == 'm');
    case 3:
        return has_any_case_at(name, size, 0, "div");
    case 4:
        return has_any_case_at(name, size, 0, "span");
    default:
        return 0;
    }
}

/* Whether an element of a drawing begins here that holds nothing: `_EMPTY_CELL` of `files/qr_codes.py`. */
static int is_empty_cell(const unsigned char *bytes, size_t size, size_t at)
{
    size_t end = ++at;
    while (end < size && ((bytes[end] < 0x80 && is_word_character(bytes[end])) || bytes[end] == '_'))
        end++;
    if (!is_cell_name(bytes + at, end - at))
        return 0;
    while (end < size && bytes[end] != '<' && bytes[end] != '>')
        end++;
    if (end == size || bytes[end++] == '<')
        return 0;
    for (int count = 0; count < 20 && end < size; count++) {
        if (bytes[end] == ' ' || (bytes[end] >= '\t' && bytes[end] <= '\r'))
            end++;
        else if (has_any_case_at(bytes, size, end, "&nbsp;"))
            end += 6;
        else
            break;
    }
    if (end + 1 >= size || bytes[end] != '<')
        return 0;
    if (bytes[end + 1] == '/')
        return 1;
    if (end + 2 >= size || (bytes[end + 1] | 0x20) != 't')
        return 0;
    unsigned char third = bytes[end + 2] | 0x20;
    return third == 'd' || third == 'h' || third == 'r';
}

/* What of a page may be cells, in any case of its letters. */
static int look_for_elements(const unsigned char *bytes, size_t size)
{
    size_t dark = 0, marks = 0, backgrounds = 0, cells = 0;
    int has_shadow = 0;
    for (size_t at = 0; at < size; at++) {
        if (!(mark_starts[bytes[at]] & OF_ELEMENT))
            continue;
        unsigned char next = at + 1 < size ? bytes[at + 1] | 0x20 : 0;
        switch (bytes[at]) {
        case '#':
            dark += at + 1 < size && bytes[at + 1] == '0';
            break;
        case 'b': case 'B':
            if (next == 'a')
                backgrounds += (size_t)has_any_case_at(bytes, size, at, "background");
            else if (next == 'g')
                marks += (size_t)has_any_case_at(bytes, size, at, "bgcolor");
            else if (next == 'l')
                dark += (size_t)has_any_case_at(bytes, size, at, "black");
            else if (next == 'o' && has_any_case_at(bytes, size, at, "border:"))
                marks++;
            else if (next == 'o')
                has_shadow |= has_any_case_at(bytes, size, at, "box-shadow");
            break;
        case 'c': case 'C':
            if (next == 'l')
                marks += (size_t)has_any_case_at(bytes, size, at, "class=");
            break;
        case '<':
            cells += cells < MIN_CELLS && is_empty_cell(bytes, size, at);
            break;
        default:
            break;
        }
    }
    if (has_shadow && dark >= MIN_CELLS)
        return HAS_CELLS;
    if (marks + backgrounds < MIN_CELLS / 2)
        return NO_CELLS;
    return cells == MIN_CELLS ? HAS_CELLS : backgrounds >= 3 * MIN_CELLS ? SHORT_CELLS : NO_CELLS;
}

/* look_for_cells(content): whether a text has enough cells, blocks, shadows or gradients for a code (1), or not (0); 2
where cells with a letter or two are still to be looked for. */
static PyObject *look_for_cells(PyObject *self, PyObject *content)
{
    (void)self;
    if (!PyBytes_Check(content)) {
        PyErr_SetString(PyExc_TypeError, "bytes are wanted");
        return NULL;
    }
    const unsigned char *bytes = (const unsigned char *)PyBytes_AS_STRING(content);
    size_t size = (size_t)PyBytes_GET_SIZE(content);
    size_t blocks[4] = {0}, signs[3] = {0}, references[3] = {0}, dots = 0, tags = 0, dark = 0;
    int has_gradient = 0, has_shadow = 0, has_full_dots = 0;
    for (size_t at = 0; at < size; at++) {
        if (!(mark_starts[bytes[at]] & OF_CELL))
            continue;
        unsigned char c = bytes[at], next = at + 1 < size ? bytes[at + 1] : 0;
        switch (c) {
        case '<':
            tags++;
            break;
        case '#':
            if (next == '0')
                dark++;
            __attribute__((fallthrough));
        case '@': case 'X':
            if (next == c) {
                signs[c == '#' ? 0 : c == '@' ? 1 : 2]++;
                at++; /* pairs do not overlap; the second sign may be the first of `#0` */
                dark += c == '#' && at + 1 < size && bytes[at + 1] == '0';
            }
            break;
        case '&':
            if (next == '#') {
                references[0] += (size_t)has_at(bytes, size, at, "&#96");
                references[1] += (size_t)has_at(bytes, size, at, "&#x25");
                references[2] += (size_t)has_at(bytes, size, at, "&#X25");
            }
            break;
        case 'b':
            if (next == 'l')
                dark += (size_t)has_at(bytes, size, at, "black");
            else if (next == 'o')
                has_shadow |= has_at(bytes, size, at, "box-shadow");
            break;
        case 'g':
            if (next == 'r')
                has_gradient |= has_at(bytes, size, at, "gradient(");
            break;
        case 0xe2:
            blocks[0] += next == 0x96;
            blocks[1] += (size_t)has_at(bytes, size, at, "\xe2\xac\x9b");
            blocks[2] += (size_t)has_at(bytes, size, at, "\xe2\x9a\xab");
            blocks[3] += (size_t)has_at(bytes, size, at, "\xe2\x97\x8f");
            dots += next >= 0xa0 && next <= 0xa3;
            has_full_dots |= next == 0xa3;
            break;
        default:
            break;
        }
    }
    int found = (has_full_dots && dots >= MIN_CELLS / 2) || (has_gradient && dark >= MIN_CELLS / 2);
    for (size_t i = 0; i < 4; i++)
        found |= blocks[i] >= MIN_CELLS / 2;
    for (size_t i = 0; i < 3; i++)
        found |= signs[i] >= MANY_SIGNS || references[i] >= MIN_CELLS;
    if (!found && (tags >= 2 * MIN_CELLS || has_shadow))
        return PyLong_FromLong(look_for_elements(bytes, size < MAX_DRAWN_SOURCE ? size : MAX_DRAWN_SOURCE));
    return PyLong_FromLong(found ? HAS_CELLS : NO_CELLS);
}
