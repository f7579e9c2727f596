/* Ordinary pages in one pass over what lexbor writes out: texts, and what links or fetches, in order. Part of
`_speedups.c`.

The source is read as UTF-8. Everything that is made of it is shorter than it is, so that two buffers of its size hold
the texts. Nothing here recurses; each byte is looked at a bounded number of times. */

static void add_space(FlatPage *page, char space)
{
    if (page->look.unseen)
        page->hidden[page->hidden_size++] = space;
    else
        page->visible[page->visible_size++] = space;
}

static int read_page_text(FlatPage *page, Slice text)
{
    if (page->look.unseen) {
        char *kept = page->hidden + page->hidden_size, *at = kept;
        size_t size = copy_decoded(kept, text), blank;
        while (at < kept + size && (blank = blank_size(at, kept + size)))
            at += blank;
        if (at == kept + size)
            return PAGE_DONE;
        page->hidden_size += size;
        if (!page->reasons[page->look.unseen])
            page->order[page->reason_count++] = page->look.unseen;
        page->reasons[page->look.unseen] += (Py_ssize_t)count_chars(kept, size);
        return PAGE_DONE;
    }
    char *kept = page->visible + page->visible_size;
    size_t size = copy_decoded(kept, text);
    page->visible_size += size;
    if (page->anchors || (!memchr(kept, '.', size) && !memchr(kept, ':', size)))
        return PAGE_DONE;
    PyObject *piece = PyUnicode_DecodeUTF8(kept, (Py_ssize_t)size, NULL);
    int result = piece ? PyList_Append(page->loose, piece) : -1;
    Py_XDECREF(piece);
    return result < 0 ? PAGE_ERROR : PAGE_DONE;
}

/* Split a tag, from behind its name, into attributes. PAGE_ODD where names could be read in more than one way. */
static int split_attributes(FlatPage *page, const char *at, const char *end)
{
    page->attribute_count = 0;
    memset(page->known, 0, sizeof page->known);
    while (at < end) {
        if (*at++ != ' ' || page->attribute_count == MOST_ATTRIBUTES)
            return PAGE_ODD;
        PageAttribute *attribute = &page->attributes[page->attribute_count++];
        attribute->name.start = at;
        while (at < end && *at != '=') {
            unsigned char c = (unsigned char)*at++;
            if (c >= 0x80 || c == '"' || c == '\'' || c == '<' || c == '>' || c == '/' || c == '&' || is_blank(c))
                return PAGE_ODD;
        }
        attribute->name.size = (size_t)(at - attribute->name.start);
        if (!attribute->name.size || end - at < 3 || at[1] != '"')
            return PAGE_ODD;
        at += 2;
        const char *close = memchr(at, '"', (size_t)(end - at));
        if (!close)
            return PAGE_ODD;
        attribute->value = (Slice){at, (size_t)(close - at)};
        at = close + 1;
        attribute->kind = find_page_name(attribute_slots, attribute->name.start, attribute->name.size);
        if (attribute->kind == IS_ODD_ATTRIBUTE
            || (attribute->name.size > 4 && attribute->name.start[0] == 'o' && attribute->name.start[1] == 'n'))
            return PAGE_ODD;
        if (attribute->kind && page->known[attribute->kind] && attribute->kind != IS_SOURCE)
            return PAGE_ODD;
        page->known[attribute->kind] = attribute;
    }
    for (size_t i = 0; i < page->attribute_count; i++) { /* no name twice: the last one would count */
        Slice name = page->attributes[i].name;
        for (size_t j = 0; page->attributes[i].kind == IS_SOURCE && j < i; j++)
            if (page->attributes[j].name.size == name.size
                && !memcmp(page->attributes[j].name.start, name.start, name.size))
                return PAGE_ODD;
    }
    return PAGE_DONE;
}

/* Whether a word in lower case is in a text in any case. */
static int contains_word(Slice text, const char *word)
{
    size_t size = strlen(word);
    for (size_t at = 0; at + size <= text.size; at++) {
        size_t same = 0;
        while (same < size && (text.start[at + same] | (word[same] >= 'a' ? 0x20 : 0)) == word[same])
            same++;
        if (same == size)
            return 1;
    }
    return 0;
}

/* Whether a target leads nowhere but to a place of the page itself. */
static int leads_nowhere(Slice target)
{
    const char *at = target.start, *end = at + target.size;
    size_t blank;
    while (at < end) {
        if ((blank = blank_size(at, end)))
            at += blank;
        else if (end - at >= 6 && !memcmp(at, "&nbsp;", 6))
            at += 6;
        else
            return *at == '#';
    }
    return 1;
}

/* Read what an attribute links to. */
static int read_link(FlatPage *page, int tag, const PageAttribute *attribute, PageElement *element)
{
    Slice value = attribute->value;
    if (attribute->kind == IS_SRCSET)
        return add_plain_event(page, event_srcset, value);
    if (attribute->kind == IS_SOURCE || attribute->kind == IS_BACKGROUND)
        return value.size ? add_plain_event(page, source_image, value) : PAGE_DONE;
    if (attribute->kind == IS_CONTENT) {
        const PageAttribute *header = page->known[IS_HTTP_EQUIV];
        return header && contains_word(header->value, "refresh") ? PAGE_ODD : PAGE_DONE;
    }
    if (attribute->kind != IS_HREF)
        return PAGE_DONE;
    if (tag & TAG_LINK) {
        if (page->known[IS_REL] && contains_word(page->known[IS_REL]->value, "import"))
            return PAGE_ODD;
        return add_plain_event(page, source_css, value);
    }
    if (tag & TAG_IMAGE)
        return add_plain_event(page, source_image, value);
    if (tag & TAG_AREA) {
        Slice alt = page->known[IS_ALT] ? page->known[IS_ALT]->value : (Slice){"", 0};
        return add_event(page, source_html, decode_slice(value), decode_slice(alt));
    }
    if (leads_nowhere(value))
        return PAGE_DONE;
    if (++page->anchors > MOST_ANCHORS)
        return PAGE_ODD;
    element->is_anchor = 1;
    element->target = value;
    element->shown = page->visible_size;
    page->alt = (Slice){"", 0};
    return PAGE_DONE;
}

static int end_element(FlatPage *page, const PageElement *element)
{
    int result = PAGE_DONE;
    if (element->is_block)
        add_space(page, BREAK);
    if (element->is_anchor) {
        page->anchors--;
        size_t length = page->visible_size - element->shown;
        char *shown = PyMem_Malloc(length + 1);
        if (!shown) {
            PyErr_NoMemory();
            return PAGE_ERROR;
        }
        size_t size = squeeze_page(page->visible + element->shown, length, shown, MOST_SHOWN);
        PyObject *text = size ? PyUnicode_DecodeUTF8(shown, (Py_ssize_t)size, NULL) : decode_slice(page->alt);
        PyMem_Free(shown);
        result = add_event(page, source_html, decode_slice(element->target), text);
    }
    page->look = element->before;
    return result;
}

/* Begin an element. */
static int start_element(FlatPage *page, Slice name, int tag, const char *tag_end, PageElement *element)
{
    *element = (PageElement){page->look, {NULL, 0}, 0, (tag & TAG_BLOCK) != 0, 0};
    int result = change_look(page, name, tag, tag_end);
    if (tag & (TAG_BLOCK | TAG_SPACE))
        add_space(page, tag & TAG_BLOCK ? BREAK : ' ');
    if (tag & TAG_IMG && !page->alt.size && page->known[IS_ALT])
        page->alt = page->known[IS_ALT]->value;
    for (size_t i = 0; i < page->attribute_count && result == PAGE_DONE; i++)
        result = read_link(page, tag, &page->attributes[i], element);
    return result;
}

/* Read a start tag, whose name begins at `at`; what follows it in `page->text`. */
static int read_start_tag(FlatPage *page, const char *at, const char *end, int *is_read)
{
    Slice name = {at, 0};
    while (at < end
           && ((*at >= 'a' && *at <= 'z')
               || (at > name.start
                   && ((*at >= '0' && *at <= '9') || *at == ':' || *at == '_' || *at == '.' || *at == '-'))))
        at++;
    name.size = (size_t)(at - name.start);
    if (!name.size)
        return PAGE_ODD;
    int tag = find_page_name(tag_slots, name.start, name.size), result;
    if (tag & TAG_ODD || (result = split_attributes(page, at, end)) == PAGE_ODD)
        return PAGE_ODD;
    PageElement element;
    if ((result = start_element(page, name, tag, end, &element)) != PAGE_DONE)
        return result;
    *is_read = 1;
    if (tag & TAG_STYLE) {
        const char *close = memmem(page->text, (size_t)(page->end - page->text), "</style>", 8);
        if (!close)
            return PAGE_ODD;
        page->text = close + 8;
        return end_element(page, &element);
    }
    if (tag & TAG_VOID)
        return end_element(page, &element);
    if (page->depth == MOST_NESTED)
        return PAGE_ODD;
    *is_read = !(tag & TAG_UNREAD);
    page->opened[page->depth++] = element;
    return PAGE_DONE;
}

static int read_page_comment(FlatPage *page, const char *at)
{
    const char *end = memmem(at, (size_t)(page->end - at), "-->", 3);
    if (!end)
        return PAGE_ODD;
    Slice text = {at, (size_t)(end - at)};
    page->text = end + 3;
    page->nodes++;
    if (!contains_word((Slice){at, text.size < 96 ? text.size : 96}, "[if"))
        return PAGE_DONE;
    PyObject *comment = PyUnicode_DecodeUTF8(text.start, (Py_ssize_t)text.size, NULL);
    return add_event(page, event_comment, comment, PyUnicode_New(0, 0));
}

/* Go through the page. */
static int read_tags(FlatPage *page)
{
    int is_read = 1, tags = 0, result = PAGE_DONE;
    while (page->text < page->end && result == PAGE_DONE) {
        const char *open = memchr(page->text, '<', (size_t)(page->end - page->text));
        Slice text = {page->text, (size_t)((open ? open : page->end) - page->text)};
        if (text.size) {
            page->nodes++;
            if (is_read && read_page_text(page, text) < 0)
                return PAGE_ERROR;
        }
        if (!open)
            break;
        if (page->end - open >= 4 && !memcmp(open, "<!--", 4)) {
            result = read_page_comment(page, open + 4);
            continue;
        }
        const char *close = memchr(open, '>', (size_t)(page->end - open));
        if (!close)
            return PAGE_ODD;
        page->text = close + 1;
        page->start = open;
        if (open[1] == '/') {
            if (!page->depth)
                return PAGE_ODD;
            result = end_element(page, &page->opened[--page->depth]);
            is_read = 1;
        } else if (open[1] != '!') {
            page->nodes++;
            if (++tags > MOST_PAGE_TAGS)
                return PAGE_ODD;
            result = read_start_tag(page, open + 1, close, &is_read);
        }
    }
    return result == PAGE_DONE && page->depth ? PAGE_ODD : result;
}

static PyObject *list_reasons(const FlatPage *page)
{
    PyObject *found = PyList_New(0);
    for (int i = 0; found && i < page->reason_count; i++) {
        PyObject *pair = Py_BuildValue("(in)", page->order[i], page->reasons[page->order[i]]);
        if (!pair || PyList_Append(found, pair) < 0)
            Py_CLEAR(found);
        Py_XDECREF(pair);
    }
    return found;
}

/* What was read, as Python takes it. */
static PyObject *make_page(FlatPage *page)
{
    int has_angle = page->visible_size && memchr(page->visible, '<', page->visible_size);
    PyObject *pieces = PyUnicode_DecodeUTF8(page->visible, has_angle ? (Py_ssize_t)page->visible_size : 0, NULL);
    page->visible_size = squeeze_page(page->visible, page->visible_size, page->visible, SIZE_MAX);
    page->hidden_size = squeeze_page(page->hidden, page->hidden_size, page->hidden, SIZE_MAX);
    PyObject *visible = PyUnicode_DecodeUTF8(page->visible, (Py_ssize_t)page->visible_size, NULL);
    PyObject *hidden = PyUnicode_DecodeUTF8(page->hidden, (Py_ssize_t)page->hidden_size, NULL);
    PyObject *reasons = list_reasons(page);
    if (pieces && visible && hidden && reasons)
        return Py_BuildValue("(NNNONOn)", visible, pieces, hidden, page->loose, reasons, page->events, page->nodes);
    Py_XDECREF(pieces);
    Py_XDECREF(visible);
    Py_XDECREF(hidden);
    Py_XDECREF(reasons);
    return NULL;
}

/* read_page(source, rules, colours, parse, resolve, parse_colour): visible text, its pieces as they stand if they have
a `<`, hidden text, loose pieces, reasons, events and the number of nodes; None for a page that is not ordinary. */
static PyObject *read_page(PyObject *self, PyObject *args)
{
    PyObject *source, *rules, *colours, *parse, *resolve, *parse_colour, *result = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "UO!O!OOO", &source, &PyDict_Type, &rules, &PyDict_Type, &colours, &parse, &resolve,
                          &parse_colour))
        return NULL;
    if (PyUnicode_GET_LENGTH(source) > LONGEST_PAGE)
        Py_RETURN_NONE;
    Py_ssize_t length;
    const char *text = PyUnicode_AsUTF8AndSize(source, &length);
    if (!text) {
        if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))
            return NULL;
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    FlatPage *page = PyMem_Calloc(1, sizeof *page);
    if (!page)
        return PyErr_NoMemory();
    *page = (FlatPage){.text = text, .end = text + length, .rules = rules, .colours = colours, .parse = parse,
                       .resolve = resolve, .parse_colour = parse_colour, .has_rules = PyDict_GET_SIZE(rules) > 0,
                       .alt = {"", 0}, .look = {.background = 0xFFFFFF}};
    page->styles = PyDict_New();
    page->events = PyList_New(0);
    page->loose = PyList_New(0);
    page->visible = PyMem_Malloc((size_t)length + 1);
    page->hidden = PyMem_Malloc((size_t)length + 1);
    page->opened = PyMem_Malloc(MOST_NESTED * sizeof *page->opened);
    if (!page->visible || !page->hidden || !page->opened) {
        PyErr_NoMemory();
    } else if (page->styles && page->events && page->loose) {
        int state = read_tags(page);
        result = state == PAGE_DONE ? make_page(page) : state == PAGE_ODD ? Py_NewRef(Py_None) : NULL;
    }
    PyMem_Free(page->visible);
    PyMem_Free(page->hidden);
    PyMem_Free(page->opened);
    Py_XDECREF(page->styles);
    Py_XDECREF(page->events);
    Py_XDECREF(page->loose);
    PyMem_Free(page);
    return result;
}
