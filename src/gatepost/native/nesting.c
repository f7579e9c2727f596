/* How deep the elements of a page nest, as it was sent: the native form of `is_well_nested` of `mail/html/limits.py`,
which says what may be trusted. Part of `_speedups.c`. Each byte is looked at a bounded number of times. */

#define MOST_OPENED 1000

/* What elements do to those that are open, as the sets of `mail/html/limits.py` have it. In alphabetical order. */
enum { IS_VOID = 1, IS_UNNESTED = 2, FORMATS_TEXT = 4, IS_RAW = 8, IS_INLINE = 16, IS_FOREIGN_ELEMENT = 32 };

static const struct {
    const char *name;
    int kind;
} ELEMENT_KINDS[] = {
    {"a", IS_UNNESTED | IS_INLINE}, {"abbr", IS_INLINE}, {"area", IS_VOID}, {"b", FORMATS_TEXT | IS_INLINE},
    {"base", IS_VOID}, {"basefont", IS_VOID}, {"bgsound", IS_VOID}, {"big", FORMATS_TEXT | IS_INLINE},
    {"body", IS_UNNESTED}, {"br", IS_VOID | IS_INLINE}, {"caption", IS_UNNESTED}, {"cite", IS_INLINE},
    {"code", FORMATS_TEXT | IS_INLINE}, {"col", IS_VOID}, {"colgroup", IS_UNNESTED}, {"dd", IS_UNNESTED},
    {"del", IS_INLINE}, {"dt", IS_UNNESTED}, {"em", FORMATS_TEXT | IS_INLINE}, {"embed", IS_VOID},
    {"font", FORMATS_TEXT | IS_INLINE}, {"frame", IS_VOID}, {"frameset", IS_FOREIGN_ELEMENT}, {"head", IS_UNNESTED},
    {"hr", IS_VOID}, {"html", IS_UNNESTED}, {"i", FORMATS_TEXT | IS_INLINE}, {"iframe", IS_RAW},
    {"img", IS_VOID | IS_INLINE}, {"input", IS_VOID | IS_INLINE}, {"ins", IS_INLINE}, {"label", IS_INLINE},
    {"li", IS_UNNESTED}, {"link", IS_VOID}, {"math", IS_FOREIGN_ELEMENT}, {"meta", IS_VOID},
    {"nobr", FORMATS_TEXT | IS_INLINE}, {"noembed", IS_RAW}, {"noframes", IS_RAW}, {"option", IS_UNNESTED},
    {"p", IS_UNNESTED}, {"param", IS_VOID}, {"plaintext", IS_FOREIGN_ELEMENT}, {"q", IS_INLINE},
    {"s", FORMATS_TEXT | IS_INLINE}, {"script", IS_RAW}, {"small", FORMATS_TEXT | IS_INLINE}, {"source", IS_VOID},
    {"span", IS_INLINE}, {"strike", FORMATS_TEXT | IS_INLINE}, {"strong", FORMATS_TEXT | IS_INLINE},
    {"style", IS_RAW}, {"sub", IS_INLINE}, {"sup", IS_INLINE}, {"svg", IS_FOREIGN_ELEMENT}, {"tbody", IS_UNNESTED},
    {"td", IS_UNNESTED}, {"template", IS_FOREIGN_ELEMENT}, {"textarea", IS_RAW}, {"tfoot", IS_UNNESTED},
    {"th", IS_UNNESTED}, {"thead", IS_UNNESTED}, {"title", IS_RAW}, {"tr", IS_UNNESTED}, {"track", IS_VOID},
    {"tt", FORMATS_TEXT | IS_INLINE}, {"u", FORMATS_TEXT | IS_INLINE}, {"wbr", IS_VOID | IS_INLINE}, {"xmp", IS_RAW},
};

typedef struct {
    Py_ssize_t start, end;
    int kind;
} ElementName;

static Py_UCS4 small_letter_at(const Page *page, Py_ssize_t at)
{
    Py_UCS4 c = letter_at(page, at);
    return c >= 'A' && c <= 'Z' ? c + 32 : c;
}

/* Compare a name, in letters of any case, with a word in small letters: negative, 0 or positive. */
static int compare_name(const Page *page, const ElementName *name, const char *word)
{
    Py_ssize_t at = name->start;
    while (at < name->end && *word && small_letter_at(page, at) == (Py_UCS4)*word)
        at++, word++;
    if (at == name->end)
        return *word ? -1 : 0;
    return *word && small_letter_at(page, at) < (Py_UCS4)*word ? -1 : 1;
}

static ElementName read_element_name(const Page *page, Py_ssize_t start)
{
    ElementName name = {start, start, 0};
    for (; name.end < page->size; name.end++) {
        Py_UCS4 c = letter_at(page, name.end);
        if (is_page_blank(c) || c == '/' || c == '>')
            break;
    }
    size_t low = 0, high = sizeof ELEMENT_KINDS / sizeof *ELEMENT_KINDS;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = compare_name(page, &name, ELEMENT_KINDS[middle].name);
        if (!order) {
            name.kind = ELEMENT_KINDS[middle].kind;
            break;
        }
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return name;
}

static int is_same_name(const Page *page, const ElementName *one, const ElementName *other)
{
    if (one->end - one->start != other->end - other->start)
        return 0;
    for (Py_ssize_t i = 0; i < one->end - one->start; i++)
        if (small_letter_at(page, one->start + i) != small_letter_at(page, other->start + i))
            return 0;
    return 1;
}

static int is_written_at(const Page *page, Py_ssize_t at, const char *text)
{
    for (; *text; at++, text++)
        if (letter_at(page, at) != (Py_UCS4)*text)
            return 0;
    return 1;
}

/* The place after a comment whose text begins at a place; -1 where parsers may disagree on it. */
static Py_ssize_t skip_sound_comment(const Page *page, Py_ssize_t at)
{
    if (is_written_at(page, at, ">") || is_written_at(page, at, "->"))
        return -1;
    for (; at < page->size; at++) {
        if (letter_at(page, at) != '-')
            continue;
        if (is_written_at(page, at, "-->"))
            return at + 3;
        if (is_written_at(page, at, "--!>"))
            return -1;
    }
    return -1;
}

/* Where the end tag of an element of plain text stands; -1 where it has none or parsers may disagree. */
static Py_ssize_t find_raw_end(const Page *page, Py_ssize_t at, const ElementName *name)
{
    for (; at < page->size; at++) {
        if (letter_at(page, at) != '<')
            continue;
        if (is_written_at(page, at, "<!--"))
            return -1;
        ElementName end = {at + 2, at + 2 + name->end - name->start, 0};
        Py_UCS4 after = letter_at(page, end.end);
        if (letter_at(page, at + 1) == '/' && (is_page_blank(after) || after == '/' || after == '>')
            && is_same_name(page, name, &end))
            return at;
    }
    return -1;
}

/* The place after the attributes of a tag, or after `<!…>`; -1 where it does not end. */
static Py_ssize_t skip_markup(const Page *page, Py_ssize_t at, int is_tag)
{
    while (at < page->size && letter_at(page, at) != '>') {
        Py_UCS4 c = letter_at(page, at);
        if (!is_tag && c == '<')
            return -1;
        at = !is_tag || is_page_blank(c) || c == '/' ? at + 1 : skip_attribute(page, at);
    }
    return at < page->size ? at + 1 : -1;
}

typedef struct {
    ElementName opened[MOST_OPENED + 1];
    Py_ssize_t depth, formatting, selects, rebuilt;
} Nesting;

static void read_end_tag(const Page *page, Nesting *nesting, const ElementName *name)
{
    if (nesting->depth && is_same_name(page, &nesting->opened[nesting->depth - 1], name)) {
        nesting->formatting -= (name->kind & FORMATS_TEXT) != 0;
        nesting->selects -= !compare_name(page, name, "select");
        nesting->depth--;
    } else {
        nesting->rebuilt += nesting->formatting;
    }
}

/* Take a start tag; the place where reading goes on, -1 where parsers may disagree. */
static Py_ssize_t open_element(const Page *page, Nesting *nesting, const ElementName *name, Py_ssize_t at)
{
    nesting->rebuilt += name->kind & IS_INLINE ? 0 : nesting->formatting;
    if (name->kind & IS_FOREIGN_ELEMENT || (name->kind & IS_RAW && nesting->selects))
        return -1;
    if (name->kind & IS_RAW && (at = find_raw_end(page, at, name)) < 0)
        return -1;
    if (name->kind & IS_VOID)
        return at;
    if (name->kind & IS_UNNESTED && nesting->depth && is_same_name(page, &nesting->opened[nesting->depth - 1], name))
        return at;
    nesting->opened[nesting->depth++] = *name;
    nesting->formatting += (name->kind & FORMATS_TEXT) != 0;
    nesting->selects += !compare_name(page, name, "select");
    return at;
}

/* is_well_nested(html, deepest, most): whether no parser can have more than so many elements of a harmless page open at
once, or build formatting anew more often. */
static PyObject *is_well_nested(PyObject *self, PyObject *args)
{
    PyObject *html;
    Py_ssize_t deepest, most;
    (void)self;
    if (!PyArg_ParseTuple(args, "Unn", &html, &deepest, &most))
        return NULL;
    if (deepest < 0 || deepest > MOST_OPENED) {
        PyErr_SetString(PyExc_ValueError, "so deep is no limit");
        return NULL;
    }
    Page page = {PyUnicode_KIND(html), PyUnicode_DATA(html), PyUnicode_GET_LENGTH(html)};
    Nesting nesting = {.depth = 0};
    for (Py_ssize_t at = 0; at < page.size;) {
        if (letter_at(&page, at) != '<') {
            at++;
            continue;
        }
        Py_UCS4 first = letter_at(&page, at + 1);
        Py_ssize_t start = at + 1 + (first == '/');
        if (is_written_at(&page, at, "<!--")) {
            at = skip_sound_comment(&page, at + 4);
        } else if (is_page_letter(letter_at(&page, start))) {
            ElementName name = read_element_name(&page, start);
            at = skip_markup(&page, name.end, 1);
            if (at >= 0 && first == '/')
                read_end_tag(&page, &nesting, &name);
            else if (at >= 0)
                at = open_element(&page, &nesting, &name, at);
        } else {
            at = first == '/' || first == '!' || first == '?' ? skip_markup(&page, start, 0) : at + 1;
        }
        if (at < 0 || nesting.depth > deepest || nesting.rebuilt > most)
            Py_RETURN_FALSE;
    }
    Py_RETURN_TRUE;
}
