/* What an ordinary page is read into: names, pieces of text, and how elements look. Part of `_speedups.c`. */

#define LONGEST_PAGE 16000000
#define MOST_PAGE_TAGS 200000
#define MOST_NESTED 512
#define MOST_ANCHORS 4
#define MOST_ATTRIBUTES 32
#define MOST_SHOWN 1000
#define LONGEST_STYLE 1000
#define LONGEST_COLOUR 80
#define LONGEST_SELECTOR 300
#define MOST_CLASSES 12
#define TINY_FONT 1.5
#define NEAR_COLOURS 16

/* The character references that lexbor writes. */
static const struct {
    const char *name;
    Py_ssize_t size;
    Py_UCS4 character;
} references[] = {{"lt;", 3, '<'}, {"gt;", 3, '>'}, {"quot;", 5, '"'}, {"nbsp;", 5, 0xA0}, {"amp;", 4, '&'}};

/* Why text cannot be seen: the place in `REASONS` of `mail/html/style.py`. */
enum { NO_REASON, BY_DISPLAY, BY_ATTRIBUTE = 7, BY_VISIBILITY, BY_FONT_SIZE, BY_COLOUR, REASONS };
/* Colours beside 0xRRGGBB, and what is not said. */
enum { COLOUR_UNKNOWN = -1, COLOUR_TRANSPARENT = -2, UNSAID = -3 };

enum {
    TAG_BLOCK = 1, TAG_SPACE = 2, TAG_UNREAD = 4, TAG_VOID = 8, TAG_ODD = 16, TAG_IMG = 32, TAG_LINK = 64,
    TAG_IMAGE = 128, TAG_AREA = 256, TAG_FONT = 512, TAG_BODY = 1024, TAG_STYLE = 2048,
};

enum {
    NO_ATTRIBUTE, IS_STYLE, IS_CLASS, IS_ID, IS_HIDDEN, IS_BGCOLOR, IS_BACKGROUND, IS_COLOR, IS_TEXT_COLOUR, IS_HREF,
    IS_SRCSET, IS_SOURCE, IS_CONTENT, IS_ALT, IS_REL, IS_HTTP_EQUIV, IS_ODD_ATTRIBUTE, ATTRIBUTE_KINDS,
};

typedef struct {
    const char *name;
    int value;
} Named;

static const Named page_tags[] = {
    {"address", TAG_BLOCK}, {"article", TAG_BLOCK}, {"aside", TAG_BLOCK}, {"blockquote", TAG_BLOCK},
    {"body", TAG_BLOCK | TAG_BODY}, {"br", TAG_BLOCK | TAG_VOID}, {"center", TAG_BLOCK}, {"dd", TAG_BLOCK},
    {"details", TAG_BLOCK}, {"div", TAG_BLOCK}, {"dl", TAG_BLOCK}, {"dt", TAG_BLOCK}, {"fieldset", TAG_BLOCK},
    {"figcaption", TAG_BLOCK}, {"figure", TAG_BLOCK}, {"footer", TAG_BLOCK}, {"h1", TAG_BLOCK}, {"h2", TAG_BLOCK},
    {"h3", TAG_BLOCK}, {"h4", TAG_BLOCK}, {"h5", TAG_BLOCK}, {"h6", TAG_BLOCK}, {"header", TAG_BLOCK},
    {"hr", TAG_BLOCK | TAG_VOID}, {"li", TAG_BLOCK}, {"main", TAG_BLOCK}, {"nav", TAG_BLOCK}, {"ol", TAG_BLOCK},
    {"p", TAG_BLOCK}, {"pre", TAG_BLOCK}, {"section", TAG_BLOCK}, {"table", TAG_BLOCK}, {"tbody", TAG_BLOCK},
    {"tfoot", TAG_BLOCK}, {"thead", TAG_BLOCK}, {"tr", TAG_BLOCK}, {"ul", TAG_BLOCK}, {"caption", TAG_BLOCK},
    {"legend", TAG_BLOCK}, {"summary", TAG_BLOCK}, {"option", TAG_BLOCK}, {"select", TAG_BLOCK},
    {"textarea", TAG_BLOCK}, {"marquee", TAG_BLOCK}, {"td", TAG_SPACE}, {"th", TAG_SPACE}, {"button", TAG_SPACE},
    {"label", TAG_SPACE}, {"title", TAG_UNREAD}, {"style", TAG_UNREAD | TAG_STYLE}, {"img", TAG_VOID | TAG_IMG},
    {"link", TAG_VOID | TAG_LINK}, {"image", TAG_IMAGE}, {"use", TAG_IMAGE}, {"area", TAG_VOID | TAG_AREA},
    {"font", TAG_FONT}, {"basefont", TAG_VOID}, {"bgsound", TAG_VOID}, {"col", TAG_VOID}, {"keygen", TAG_VOID},
    {"meta", TAG_VOID}, {"param", TAG_VOID}, {"source", TAG_VOID}, {"track", TAG_VOID}, {"wbr", TAG_VOID},
    /* What acts, or is not written out as it was read. */
    {"script", TAG_ODD}, {"input", TAG_ODD}, {"form", TAG_ODD}, {"iframe", TAG_ODD}, {"frame", TAG_ODD},
    {"object", TAG_ODD}, {"embed", TAG_ODD}, {"applet", TAG_ODD}, {"svg", TAG_ODD}, {"math", TAG_ODD},
    {"template", TAG_ODD}, {"base", TAG_ODD}, {"plaintext", TAG_ODD}, {"xmp", TAG_ODD}, {"noembed", TAG_ODD},
    {"noframes", TAG_ODD}, {"listing", TAG_ODD}, {"animate", TAG_ODD}, {"set", TAG_ODD},
};

static const Named page_attributes[] = {
    {"style", IS_STYLE}, {"class", IS_CLASS}, {"id", IS_ID}, {"hidden", IS_HIDDEN}, {"bgcolor", IS_BGCOLOR},
    {"background", IS_BACKGROUND}, {"color", IS_COLOR}, {"text", IS_TEXT_COLOUR}, {"href", IS_HREF},
    {"xlink:href", IS_HREF}, {"srcset", IS_SRCSET}, {"src", IS_SOURCE}, {"lowsrc", IS_SOURCE}, {"dynsrc", IS_SOURCE},
    {"poster", IS_SOURCE}, {"data", IS_SOURCE}, {"code", IS_SOURCE}, {"codebase", IS_SOURCE}, {"content", IS_CONTENT},
    {"alt", IS_ALT}, {"rel", IS_REL}, {"http-equiv", IS_HTTP_EQUIV}, {"action", IS_ODD_ATTRIBUTE},
    {"formaction", IS_ODD_ATTRIBUTE}, {"srcdoc", IS_ODD_ATTRIBUTE},
};

/* Names by a hash of their length and three of their letters. */
#define NAME_SLOTS 512
static const Named *tag_slots[NAME_SLOTS], *attribute_slots[NAME_SLOTS];

static size_t hash_name(const char *name, size_t size)
{
    const unsigned char *letters = (const unsigned char *)name;
    return (size * 131 + letters[0] * 31u + letters[size / 2] * 7u + letters[size - 1]) % NAME_SLOTS;
}

static void fill_name_slots(const Named **slots, const Named *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t at = hash_name(names[i].name, strlen(names[i].name));
        while (slots[at] && slots[at] != &names[i])
            at = (at + 1) % NAME_SLOTS;
        slots[at] = &names[i];
    }
}

static void fill_page_names(void)
{
    fill_name_slots(tag_slots, page_tags, sizeof page_tags / sizeof *page_tags);
    fill_name_slots(attribute_slots, page_attributes, sizeof page_attributes / sizeof *page_attributes);
}

static int find_page_name(const Named *const *slots, const char *name, size_t size)
{
    for (size_t at = hash_name(name, size); slots[at]; at = (at + 1) % NAME_SLOTS)
        if (strlen(slots[at]->name) == size && !memcmp(slots[at]->name, name, size))
            return slots[at]->value;
    return 0;
}

typedef struct {
    int hides, invisible, colour, background, tiny;
    PyObject *active; /* borrowed from the packed style, which the page keeps */
} PageStyle;

typedef struct {
    int hidden, invisible, colour, background, tiny, unseen;
} PageLook;

typedef struct {
    PageLook before;
    Slice target;
    size_t shown;
    int is_block, is_anchor;
} PageElement;

typedef struct {
    Slice name, value;
    int kind;
} PageAttribute;

typedef struct {
    const char *text, *end, *start; /* where the pass is, where the source ends, where the current tag begins */
    PyObject *rules, *colours, *parse, *resolve, *parse_colour;
    PyObject *styles, *events, *loose;
    char *visible, *hidden;
    size_t visible_size, hidden_size;
    PageElement *opened;
    size_t depth;
    PageLook look;
    Slice alt;
    Py_ssize_t nodes, reasons[REASONS];
    int order[REASONS], reason_count, anchors, has_rules;
    PageAttribute attributes[MOST_ATTRIBUTES];
    size_t attribute_count;
    const PageAttribute *known[ATTRIBUTE_KINDS];
} FlatPage;

/* What a step says: the page is not ordinary; an exception is set. */
enum { PAGE_ERROR = -1, PAGE_ODD = 0, PAGE_DONE = 1 };

static PyObject *source_html, *source_image, *source_css, *event_srcset, *event_style, *event_comment;

static int intern_page_names(void)
{
    struct {
        PyObject **name;
        const char *text;
    } names[] = {
        {&source_html, "html"}, {&source_image, "image"}, {&source_css, "css"},
        {&event_srcset, "srcset"}, {&event_style, "style"}, {&event_comment, "comment"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!*names[i].name && !(*names[i].name = PyUnicode_InternFromString(names[i].text)))
            return -1;
    return 0;
}

/* How many bytes the white space has that begins here, as `str.split` sees it; 0 for none. */
static size_t blank_size(const char *text, const char *end)
{
    unsigned char first = (unsigned char)text[0];
    if (first < 0x80)
        return (size_t)is_blank(first);
    if (first == 0xC2 && end - text > 1)
        return (unsigned char)text[1] == 0x85 || (unsigned char)text[1] == 0xA0 ? 2 : 0;
    if (first < 0xE1 || first > 0xE3 || end - text < 3)
        return 0;
    unsigned char second = (unsigned char)text[1], third = (unsigned char)text[2];
    if (first == 0xE1)
        return second == 0x9A && third == 0x80 ? 3 : 0;
    if (first == 0xE3)
        return second == 0x80 && third == 0x80 ? 3 : 0;
    if (second == 0x81)
        return third == 0x9F ? 3 : 0;
    return second == 0x80 && (third <= 0x8A || third == 0xA8 || third == 0xA9 || third == 0xAF) ? 3 : 0;
}

/* Runs of blanks as one, runs that hold a break as a line end; at most so many characters. `kept` may be `text`. */
static size_t squeeze_page(const char *text, size_t length, char *kept, size_t most)
{
    const char *end = text + length;
    size_t size = 0, chars = 0;
    while (text < end) {
        int has_break = 0;
        size_t blank;
        while (text < end && (blank = blank_size(text, end))) {
            has_break |= *text == BREAK;
            text += blank;
        }
        if (text == end)
            break;
        if (size) {
            if (chars++ >= most)
                return size;
            kept[size++] = has_break ? '\n' : ' ';
        }
        while (text < end && !blank_size(text, end)) {
            if (((unsigned char)*text & 0xC0) != 0x80 && chars++ >= most)
                return size;
            kept[size++] = *text++;
        }
    }
    return size;
}

/* Copy text without the five character references; how many bytes were kept. */
static size_t copy_decoded(char *kept, Slice text)
{
    const char *at = text.start, *end = at + text.size, *sign;
    size_t size = 0;
    while (at < end && (sign = memchr(at, '&', (size_t)(end - at)))) {
        memcpy(kept + size, at, (size_t)(sign - at));
        size += (size_t)(sign - at);
        at = sign + 1;
        kept[size] = '&';
        for (size_t i = 0; i < sizeof references / sizeof *references; i++) {
            if (end - at < references[i].size || memcmp(at, references[i].name, (size_t)references[i].size))
                continue;
            at += references[i].size;
            if (references[i].character == 0xA0)
                kept[size++] = (char)0xC2;
            kept[size] = (char)references[i].character;
            break;
        }
        size++;
    }
    if (at < end) {
        memcpy(kept + size, at, (size_t)(end - at));
        size += (size_t)(end - at);
    }
    return size;
}

static PyObject *decode_slice(Slice text)
{
    if (!text.size || !memchr(text.start, '&', text.size))
        return PyUnicode_DecodeUTF8(text.start, (Py_ssize_t)text.size, NULL);
    char *kept = PyMem_Malloc(text.size);
    if (!kept)
        return PyErr_NoMemory();
    PyObject *result = PyUnicode_DecodeUTF8(kept, (Py_ssize_t)copy_decoded(kept, text), NULL);
    PyMem_Free(kept);
    return result;
}

static size_t count_chars(const char *text, size_t size)
{
    size_t count = 0;
    for (size_t i = 0; i < size; i++)
        count += ((unsigned char)text[i] & 0xC0) != 0x80;
    return count;
}

/* Add an event; the references of value and shown are taken, and may be NULL after an error. */
static int add_event(FlatPage *page, PyObject *kind, PyObject *value, PyObject *shown)
{
    PyObject *is_hidden = page->look.unseen ? Py_True : Py_False;
    PyObject *event = value && shown ? PyTuple_Pack(4, kind, value, shown, is_hidden) : NULL;
    int result = event ? PyList_Append(page->events, event) : -1;
    Py_XDECREF(event);
    Py_XDECREF(value);
    Py_XDECREF(shown);
    return result < 0 ? PAGE_ERROR : PAGE_DONE;
}

static int add_plain_event(FlatPage *page, PyObject *kind, Slice value)
{
    return add_event(page, kind, decode_slice(value), PyUnicode_New(0, 0));
}

/* ---------------------------------------------------------------- appearance */

static int are_alike(int one, int other)
{
    return abs((one >> 16) - (other >> 16)) <= NEAR_COLOURS
           && abs((one >> 8 & 255) - (other >> 8 & 255)) <= NEAR_COLOURS
           && abs((one & 255) - (other & 255)) <= NEAR_COLOURS;
}

static void apply_style(PageLook *look, const PageStyle *own)
{
    if (!look->hidden)
        look->hidden = own->hides;
    if (own->invisible >= 0)
        look->invisible = own->invisible;
    if (own->colour != UNSAID)
        look->colour = own->colour;
    if (own->background != UNSAID)
        look->background = own->background;
    if (own->tiny >= 0)
        look->tiny = own->tiny;
    if (look->hidden)
        look->unseen = look->hidden;
    else if (look->invisible)
        look->unseen = BY_VISIBILITY;
    else if (look->tiny)
        look->unseen = BY_FONT_SIZE;
    else if (look->colour == COLOUR_TRANSPARENT
             || (look->background != COLOUR_UNKNOWN && look->colour != COLOUR_UNKNOWN
                 && are_alike(look->colour, look->background)))
        look->unseen = BY_COLOUR;
    else
        look->unseen = NO_REASON;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static Slice strip(Slice text)
{
    while (text.size && is_blank((unsigned char)text.start[0]))
        text.start++, text.size--;
    while (text.size && is_blank((unsigned char)text.start[text.size - 1]))
        text.size--;
    return text;
}

/* A colour in hexadecimal digits or by its name, in lower case; 0 for what is neither. */
static int read_colour(FlatPage *page, Slice text, int *colour)
{
    Slice digits = text;
    if (digits.size && digits.start[0] == '#')
        digits.start++, digits.size--;
    size_t count = 0;
    while (count < digits.size && hex_digit(digits.start[count]) >= 0)
        count++;
    if (count == digits.size && count >= 3 && count <= 8) {
        int value = 0, step = count < 6 ? 1 : 2;
        if (count == 4 || count == 8) {
            int alpha = hex_digit(digits.start[count - 1]) | (count == 8 ? hex_digit(digits.start[count - 2]) << 4 : 0);
            if (!alpha) {
                *colour = COLOUR_TRANSPARENT;
                return 1;
            }
        }
        for (int i = 0; i < 3; i++) {
            int high = hex_digit(digits.start[i * step]);
            value = value << 8 | high << 4 | hex_digit(digits.start[i * step + step - 1]);
        }
        *colour = value;
        return 1;
    }
    if (text.size < 3 || text.size > 20)
        return 0;
    PyObject *name = PyUnicode_DecodeASCII(text.start, (Py_ssize_t)text.size, NULL);
    PyObject *known = name ? PyDict_GetItemWithError(page->colours, name) : NULL;
    Py_XDECREF(name);
    if (known)
        *colour = (int)PyLong_AsLong(known);
    return PyErr_Occurred() ? PAGE_ERROR : known != NULL;
}

static int take_number(PyObject *packed, Py_ssize_t at)
{
    return (int)PyLong_AsLong(PyTuple_GET_ITEM(packed, at));
}

/* Take a style that Python has packed: why it hides, invisible, colour, background, tiny, active; None is odd. */
static int unpack_style(PyObject *packed, PageStyle *style)
{
    if (packed == Py_None)
        return PAGE_ODD;
    if (!PyTuple_Check(packed) || PyTuple_GET_SIZE(packed) != 6 || !PyUnicode_Check(PyTuple_GET_ITEM(packed, 5))) {
        PyErr_SetString(PyExc_TypeError, "a packed style is a tuple of six");
        return PAGE_ERROR;
    }
    PyObject *active = PyTuple_GET_ITEM(packed, 5);
    *style = (PageStyle){take_number(packed, 0), take_number(packed, 1), take_number(packed, 2), take_number(packed, 3),
                         take_number(packed, 4), PyUnicode_GET_LENGTH(active) ? active : NULL};
    if (PyErr_Occurred())
        return PAGE_ERROR;
    if (style->hides < 0 || style->hides >= REASONS) {
        PyErr_SetString(PyExc_ValueError, "no such reason");
        return PAGE_ERROR;
    }
    return PAGE_DONE;
}

/* The style that Python reads from declarations, kept for the page by their text. */
static int ask_style(FlatPage *page, Slice text, PageStyle *style)
{
    PyObject *key = PyUnicode_DecodeUTF8(text.start, (Py_ssize_t)text.size, NULL);
    PyObject *packed = key ? PyDict_GetItemWithError(page->styles, key) : NULL;
    int result = PAGE_ERROR;
    if (packed) {
        result = unpack_style(packed, style);
    } else if (key && !PyErr_Occurred()) {
        PyObject *declared = decode_slice(text);
        packed = declared ? PyObject_CallOneArg(page->parse, declared) : NULL;
        if (packed && PyDict_SetItem(page->styles, key, packed) == 0)
            result = unpack_style(packed, style);
        Py_XDECREF(packed);
        Py_XDECREF(declared);
    }
    Py_XDECREF(key);
    return result;
}

/* The style that Python resolves with the rules of sheets, kept for the page by the text of the tag. */
static int ask_rules(FlatPage *page, Slice name, const char *tag_end, PageStyle *style)
{
    PyObject *key = PyUnicode_DecodeUTF8(page->start, tag_end - page->start, NULL);
    PyObject *packed = key ? PyDict_GetItemWithError(page->styles, key) : NULL;
    int result = PAGE_ERROR;
    if (packed) {
        result = unpack_style(packed, style);
    } else if (key && !PyErr_Occurred()) {
        PyObject *given[4] = {PyUnicode_DecodeUTF8(name.start, (Py_ssize_t)name.size, NULL)};
        static const int kinds[] = {IS_CLASS, IS_ID, IS_STYLE};
        int is_made = given[0] != NULL;
        for (int i = 0; i < 3 && is_made; i++) {
            const PageAttribute *attribute = page->known[kinds[i]];
            given[i + 1] = attribute ? decode_slice(attribute->value) : PyUnicode_New(0, 0);
            is_made = given[i + 1] != NULL;
        }
        packed = is_made ? PyObject_Vectorcall(page->resolve, given, 4, NULL) : NULL;
        for (int i = 0; i < 4; i++)
            Py_XDECREF(given[i]);
        if (packed && PyDict_SetItem(page->styles, key, packed) == 0)
            result = unpack_style(packed, style);
        Py_XDECREF(packed);
    }
    Py_XDECREF(key);
    return result;
}

enum { SAYS_DISPLAY, SAYS_VISIBILITY, SAYS_COLOR, SAYS_BACKGROUND, SAYS_BACKGROUND_COLOR, SAYS_FONT_SIZE, SAID };

typedef struct {
    Slice value;
    int is_said, is_important;
} Declared;

static int is_word(Slice text, const char *word)
{
    size_t size = strlen(word);
    return text.size == size && !memcmp(text.start, word, size);
}

/* Which of the properties above one is; -1 for one that says nothing here, -2 for one that Python must weigh. */
static int find_property(Slice name, Slice value)
{
    if (!name.size)
        return -1;
    switch (name.start[0]) {
    case 'b':
        if (is_word(name, "background"))
            return SAYS_BACKGROUND;
        if (is_word(name, "background-color"))
            return SAYS_BACKGROUND_COLOR;
        return is_word(name, "bottom") && value.size && value.start[0] == '-' ? -2 : -1;
    case 'c':
        return is_word(name, "color") ? SAYS_COLOR : begins_with(name, "clip") ? -2 : -1;
    case 'd':
        return is_word(name, "display") ? SAYS_DISPLAY : -1;
    case 'f':
        return is_word(name, "font-size") ? SAYS_FONT_SIZE : is_word(name, "font") ? -2 : -1;
    case 'l': case 'm': case 'r':
        return value.size && value.start[0] == '-' ? -2 : -1;
    case 't':
        return is_word(name, "transform") || (value.size && value.start[0] == '-') ? -2 : -1;
    case 'o':
        if (begins_with(name, "overflow"))
            return begins_with(value, "hidden") || begins_with(value, "clip") ? -2 : -1;
        return is_word(name, "opacity") ? -2 : -1;
    case 'u':
        return is_word(name, "unicode-bidi") ? -2 : -1;
    case 'v':
        return is_word(name, "visibility") ? SAYS_VISIBILITY : -1;
    default:
        return -1;
    }
}

/* Whether a font size is too small to read, -1 for what is no size; `is_known` is 0 where Python must say. */
static int is_tiny_size(Slice text, int *is_known)
{
    static const struct {
        const char *unit;
        double pixels;
    } units[] = {{"px", 1.0}, {"pt", 1.333}, {"", 1.0}, {"em", 16.0}, {"%", 0.16}, {"rem", 16.0}};
    char number[13];
    size_t size = 0, digits = 0, dots = 0;
    *is_known = 1;
    while (size < text.size && size < sizeof number - 1) {
        char c = text.start[size];
        if (c == '.')
            dots++;
        else if (c >= '0' && c <= '9')
            digits++;
        else
            break;
        number[size++] = c;
    }
    if (!size) {
        *is_known = text.start[0] != '-' && text.start[0] != '+';
        return -1;
    }
    Slice unit = strip((Slice){text.start + size, text.size - size});
    if (!digits || dots > 1 || size == sizeof number - 1) {
        *is_known = 0;
        return -1;
    }
    number[size] = '\0';
    double value = PyOS_string_to_double(number, NULL, NULL);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        *is_known = 0;
        return -1;
    }
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (is_word(unit, units[i].unit))
            return value * units[i].pixels <= TINY_FONT;
    *is_known = 0;
    return -1;
}

/* The first word of a shorthand that is a colour. */
static int find_shorthand_colour(FlatPage *page, Slice text, int *colour)
{
    const char *at = text.start, *end = at + text.size;
    while (at < end) {
        while (at < end && is_blank((unsigned char)*at))
            at++;
        Slice word = {at, 0};
        while (at < end && !is_blank((unsigned char)*at))
            at++;
        word.size = (size_t)(at - word.start);
        int is_colour = word.size ? read_colour(page, word, colour) : 0;
        if (is_colour)
            return is_colour;
    }
    *colour = UNSAID;
    return 1;
}

static int is_unset_colour(Slice text)
{
    return !text.size || is_word(text, "inherit") || is_word(text, "initial") || is_word(text, "unset");
}

/* Make a style of what was declared; PAGE_ODD where Python must. */
static int build_style(FlatPage *page, const Declared *said, PageStyle *style)
{
    int is_known = 1;
    if (said[SAYS_DISPLAY].is_said && is_word(said[SAYS_DISPLAY].value, "none"))
        style->hides = BY_DISPLAY;
    if (said[SAYS_VISIBILITY].is_said)
        style->invisible = is_word(said[SAYS_VISIBILITY].value, "hidden")
                           || is_word(said[SAYS_VISIBILITY].value, "collapse");
    if (said[SAYS_COLOR].is_said && !is_unset_colour(said[SAYS_COLOR].value))
        is_known = read_colour(page, said[SAYS_COLOR].value, &style->colour);
    if (is_known <= 0)
        return is_known;
    if (said[SAYS_BACKGROUND_COLOR].is_said && said[SAYS_BACKGROUND_COLOR].value.size) {
        if (!is_unset_colour(said[SAYS_BACKGROUND_COLOR].value))
            is_known = read_colour(page, said[SAYS_BACKGROUND_COLOR].value, &style->background);
    } else if (said[SAYS_BACKGROUND].is_said) {
        is_known = find_shorthand_colour(page, said[SAYS_BACKGROUND].value, &style->background);
    }
    if (is_known <= 0)
        return is_known;
    if (style->background == COLOUR_TRANSPARENT)
        style->background = UNSAID;
    if (said[SAYS_FONT_SIZE].is_said && said[SAYS_FONT_SIZE].value.size)
        style->tiny = is_tiny_size(said[SAYS_FONT_SIZE].value, &is_known);
    return is_known;
}

/* Read declarations in ASCII, decoded and in lower case; PAGE_ODD where Python must. */
static int read_declarations(FlatPage *page, Slice text, PageStyle *style)
{
    Declared said[SAID] = {{{NULL, 0}, 0, 0}};
    const char *at = text.start, *end = at + text.size;
    while (at < end) {
        const char *stop = memchr(at, ';', (size_t)(end - at));
        if (!stop)
            stop = end;
        const char *colon = memchr(at, ':', (size_t)(stop - at));
        if (colon) {
            const char *sign = memchr(colon, '!', (size_t)(stop - colon));
            Slice name = strip((Slice){at, (size_t)(colon - at)});
            Slice value = strip((Slice){colon + 1, (size_t)((sign ? sign : stop) - colon - 1)});
            int which = find_property(name, value);
            if (which == -2)
                return PAGE_ODD;
            if (which >= 0 && (sign || !said[which].is_important))
                said[which] = (Declared){value, 1, sign != NULL};
        }
        at = stop + 1;
    }
    return build_style(page, said, style);
}

/* The style of an attribute. */
static int read_inline_style(FlatPage *page, Slice text, PageStyle *style)
{
    char plain[LONGEST_STYLE];
    if (!text.size)
        return PAGE_DONE;
    if (text.size > LONGEST_STYLE)
        return ask_style(page, text, style);
    size_t size = copy_decoded(plain, text);
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)plain[i];
        if (c >= 0x80 || c == '(' || c == '\\' || (c == '-' && i && plain[i - 1] == '-')
            || (c == '*' && i && plain[i - 1] == '/'))
            return ask_style(page, text, style);
        if (c >= 'A' && c <= 'Z')
            plain[i] = (char)(c + 32);
    }
    int result = read_declarations(page, (Slice){plain, size}, style);
    if (result)
        return result;
    *style = (PageStyle){NO_REASON, -1, UNSAID, UNSAID, -1, NULL};
    return ask_style(page, text, style);
}

/* Whether sheets have a rule for a selector of a tag, a sign, and a name in lower case. */
static int has_rule(FlatPage *page, Slice tag, const char *sign, Slice name)
{
    char selector[2 * LONGEST_SELECTOR + 1];
    size_t size = tag.size, length = strlen(sign);
    memcpy(selector, tag.start, size);
    memcpy(selector + size, sign, length);
    size += length;
    for (size_t i = 0; i < name.size; i++) {
        char c = name.start[i];
        selector[size++] = c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
    }
    PyObject *key = PyUnicode_DecodeASCII(selector, (Py_ssize_t)size, NULL);
    int found = key ? PyDict_Contains(page->rules, key) : -1;
    Py_XDECREF(key);
    return found;
}

static int is_plain_value(Slice value)
{
    for (size_t i = 0; i < value.size; i++)
        if ((unsigned char)value.start[i] >= 0x80 || value.start[i] == '&')
            return 0;
    return value.size < LONGEST_SELECTOR;
}

/* Whether a rule of the sheets may hold for an element; -1 for an error. */
static int has_any_rule(FlatPage *page, Slice tag)
{
    const PageAttribute *of_class = page->known[IS_CLASS], *of_id = page->known[IS_ID];
    Slice nothing = {"", 0};
    if (tag.size >= LONGEST_SELECTOR || (of_class && !is_plain_value(of_class->value))
        || (of_id && !is_plain_value(of_id->value)))
        return 1;
    int found = has_rule(page, tag, "", nothing);
    if (!found && of_class) {
        const char *at = of_class->value.start, *end = at + of_class->value.size;
        for (int count = 0; !found && count < MOST_CLASSES && at < end;) {
            while (at < end && is_blank((unsigned char)*at))
                at++;
            Slice name = {at, 0};
            while (at < end && !is_blank((unsigned char)*at))
                at++;
            name.size = (size_t)(at - name.start);
            if (name.size) {
                found = has_rule(page, nothing, ".", name);
                found = found ? found : has_rule(page, tag, ".", name);
                count++;
            }
        }
    }
    if (!found && of_id && of_id->value.size) {
        Slice name = strip(of_id->value);
        found = has_rule(page, nothing, "#", name);
        found = found ? found : has_rule(page, tag, "#", name);
    }
    return found;
}

/* A colour of old HTML; UNSAID for `inherit` and the like. */
static int read_old_colour(FlatPage *page, Slice text, int *colour)
{
    char plain[LONGEST_COLOUR];
    if (text.size <= LONGEST_COLOUR && is_plain_value(text)) {
        for (size_t i = 0; i < text.size; i++)
            plain[i] = text.start[i] >= 'A' && text.start[i] <= 'Z' ? (char)(text.start[i] + 32) : text.start[i];
        int result = read_colour(page, strip((Slice){plain, text.size}), colour);
        if (result)
            return result;
    }
    PyObject *value = decode_slice(text), *found = value ? PyObject_CallOneArg(page->parse_colour, value) : NULL;
    Py_XDECREF(value);
    if (!found)
        return PAGE_ERROR;
    *colour = found == Py_None ? UNSAID : (int)PyLong_AsLong(found);
    Py_DECREF(found);
    return PyErr_Occurred() ? PAGE_ERROR : PAGE_DONE;
}

/* What the attributes of old HTML say where the style does not. */
static int add_old_attributes(FlatPage *page, int tag, PageStyle *style)
{
    const PageAttribute *back = page->known[IS_BGCOLOR];
    const PageAttribute *fore = NULL;
    if (tag & (TAG_FONT | TAG_BODY))
        fore = page->known[tag & TAG_FONT ? IS_COLOR : IS_TEXT_COLOUR];
    if (page->known[IS_HIDDEN] && !style->hides)
        style->hides = BY_ATTRIBUTE;
    if (page->known[IS_BACKGROUND])
        style->background = COLOUR_UNKNOWN;
    else if (back && back->value.size && style->background == UNSAID
             && read_old_colour(page, back->value, &style->background) < 0)
        return PAGE_ERROR;
    if (fore && fore->value.size && style->colour == UNSAID && read_old_colour(page, fore->value, &style->colour) < 0)
        return PAGE_ERROR;
    return PAGE_DONE;
}

/* Change the appearance to that inside an element. */
static int change_look(FlatPage *page, Slice name, int tag, const char *tag_end)
{
    PageStyle style = {NO_REASON, -1, UNSAID, UNSAID, -1, NULL};
    const PageAttribute *const *known = page->known;
    int is_old = known[IS_HIDDEN] || known[IS_BGCOLOR] || known[IS_BACKGROUND] || known[IS_COLOR]
                 || known[IS_TEXT_COLOUR];
    int looks = is_old || known[IS_STYLE] || known[IS_CLASS] || known[IS_ID], result = PAGE_DONE;
    if (page->attribute_count ? !looks : !page->has_rules)
        return PAGE_DONE;
    int has_rules = page->has_rules ? has_any_rule(page, name) : 0;
    if (has_rules < 0)
        return PAGE_ERROR;
    if (has_rules)
        result = ask_rules(page, name, tag_end, &style);
    else if (known[IS_STYLE])
        result = read_inline_style(page, known[IS_STYLE]->value, &style);
    if (result == PAGE_DONE && is_old)
        result = add_old_attributes(page, tag, &style);
    if (result != PAGE_DONE)
        return result;
    apply_style(&page->look, &style);
    return style.active ? add_event(page, event_style, Py_NewRef(style.active), PyUnicode_New(0, 0)) : PAGE_DONE;
}
