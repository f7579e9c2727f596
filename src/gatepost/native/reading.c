/* Words at the edges of pieces of text, and address lists as they are mostly written. Part of `_speedups.c`. */

/* edge_words(pieces): the first and last word of each piece that has one at its edge and a dot or colon in it. */
static int add_edge_word(PyObject *found, PyObject *piece, Py_ssize_t start, Py_ssize_t end)
{
    if (PyUnicode_FindChar(piece, '.', start, end, 1) < 0 && PyUnicode_FindChar(piece, ':', start, end, 1) < 0)
        return 0;
    PyObject *word = PyUnicode_Substring(piece, start, end);
    int result = word ? PyList_Append(found, word) : -1;
    Py_XDECREF(word);
    return result;
}

static PyObject *edge_words(PyObject *self, PyObject *pieces)
{
    (void)self;
    if (!PyList_Check(pieces)) {
        PyErr_SetString(PyExc_TypeError, "pieces are a list");
        return NULL;
    }
    PyObject *found = PyList_New(0);
    for (Py_ssize_t i = 0; found && i < PyList_GET_SIZE(pieces); i++) {
        PyObject *piece = PyList_GET_ITEM(pieces, i);
        if (!PyUnicode_Check(piece) || !PyUnicode_GET_LENGTH(piece))
            continue;
        int kind = PyUnicode_KIND(piece);
        const void *data = PyUnicode_DATA(piece);
        Py_ssize_t length = PyUnicode_GET_LENGTH(piece), at = 0;
        while (at < length && !Py_UNICODE_ISSPACE(PyUnicode_READ(kind, data, at)))
            at++;
        int result = at ? add_edge_word(found, piece, 0, at) : 0;
        if (!result) {
            at = length;
            while (at > 0 && !Py_UNICODE_ISSPACE(PyUnicode_READ(kind, data, at - 1)))
                at--;
            result = at < length ? add_edge_word(found, piece, at, length) : 0;
        }
        if (result < 0)
            Py_CLEAR(found);
    }
    return found;
}

/* has_invisible(text): whether text has one of the characters that have no width and are in use. */
static PyObject *has_invisible(PyObject *self, PyObject *text)
{
    (void)self;
    if (!PyUnicode_Check(text)) {
        PyErr_SetString(PyExc_TypeError, "text is wanted");
        return NULL;
    }
    Py_ssize_t length = PyUnicode_GET_LENGTH(text);
    int kind = PyUnicode_KIND(text);
    const void *data = PyUnicode_DATA(text);
    if (kind == PyUnicode_1BYTE_KIND)
        return PyBool_FromLong(!PyUnicode_IS_ASCII(text) && length && memchr(data, 0xAD, (size_t)length));
    for (Py_ssize_t i = 0; i < length; i++) {
        Py_UCS4 c = PyUnicode_READ(kind, data, i);
        if (c < 0xAD)
            continue;
        if (c == 0xAD || c == 0x34F || c == 0x61C || c == 0x115F || c == 0x1160 || c == 0x17B4 || c == 0x17B5
            || c == 0x180E || (c >= 0x200B && c <= 0x200F) || (c >= 0x202A && c <= 0x202E)
            || (c >= 0x2060 && c <= 0x2064) || (c >= 0x2066 && c <= 0x2069) || c == 0xFEFF || c == 0xE0001)
            Py_RETURN_TRUE;
    }
    Py_RETURN_FALSE;
}

/* ---------------------------------------------------------------- address lists as they are mostly written */

#define LONGEST_LIST 4000
#define LONGEST_MAILBOX 253

typedef struct {
    char name[LONGEST_LIST + 1];
    size_t name_size;
    size_t angle, angle_end;
    char bare[LONGEST_LIST + 1];
    size_t bare_size;
    int has_angle, has_at, has_quotes;
} Mailbox;

static PyObject *make_mailbox(PyObject *make, const char *name, size_t name_size, const char *address, size_t size)
{
    while (name_size && is_blank((unsigned char)name[0]))
        name++, name_size--;
    while (name_size && is_blank((unsigned char)name[name_size - 1]))
        name_size--;
    while (size && is_blank((unsigned char)address[0]))
        address++, size--;
    while (size && is_blank((unsigned char)address[size - 1]))
        size--;
    size_t local = size, domain;
    while (local && address[local - 1] != '@')
        local--;
    char lower[LONGEST_MAILBOX];
    size_t end = size;
    domain = local;
    if (local) {
        local--;
        while (local && is_blank((unsigned char)address[local - 1]))
            local--;
        while (domain < end && (address[domain] == ' ' || address[domain] == '.' || address[domain] == '\t'))
            domain++;
        while (end > domain && (address[end - 1] == ' ' || address[end - 1] == '.' || address[end - 1] == '\t'))
            end--;
    } else {
        local = size;
        domain = end;
    }
    for (size_t i = domain; i < end; i++)
        lower[i - domain] = address[i] >= 'A' && address[i] <= 'Z' ? (char)(address[i] + 32) : address[i];
    if (!name_size && !local && domain == end)
        return Py_NewRef(Py_None);
    PyObject *given[3] = {
        PyUnicode_DecodeASCII(name, (Py_ssize_t)name_size, NULL),
        PyUnicode_DecodeASCII(address, (Py_ssize_t)local, NULL),
        PyUnicode_DecodeASCII(lower, (Py_ssize_t)(end - domain), NULL),
    };
    PyObject *result = given[0] && given[1] && given[2] ? PyObject_Vectorcall(make, given, 3, NULL) : NULL;
    for (int i = 0; i < 3; i++)
        Py_XDECREF(given[i]);
    return result;
}

/* ordinary_addresses(text, make): the addresses of a list in ASCII without comments, groups, escapes and encoded words;
None for others. */
static PyObject *ordinary_addresses(PyObject *self, PyObject *args)
{
    PyObject *source, *make;
    (void)self;
    if (!PyArg_ParseTuple(args, "UO", &source, &make))
        return NULL;
    size_t length = (size_t)PyUnicode_GET_LENGTH(source);
    if (!PyUnicode_IS_ASCII(source) || length > LONGEST_LIST)
        Py_RETURN_NONE;
    const char *text = PyUnicode_DATA(source);
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (c == '(' || c == ';' || c == ':' || c == '\\' || (c == '=' && i + 1 < length && text[i + 1] == '?'))
            Py_RETURN_NONE;
    }
    PyObject *found = PyList_New(0);
    size_t at = 0;
    Mailbox box;
    while (found && at <= length) {
        size_t begin = at;
        box.name_size = box.bare_size = 0;
        box.has_angle = box.has_at = box.has_quotes = 0;
        while (at < length && text[at] != ',') {
            char c = text[at];
            if (c == '"') {
                const char *close = memchr(text + at + 1, '"', length - at - 1);
                if (!close)
                    goto odd;
                size_t end = (size_t)(close - text);
                if (box.name_size)
                    box.name[box.name_size++] = ' ';
                else if (box.has_quotes)
                    goto odd;
                memcpy(box.name + box.name_size, text + at + 1, end - at - 1);
                box.name_size += end - at - 1;
                box.has_quotes = 1;
                at = end + 1;
            } else if (c == '<') {
                size_t end = at + 1;
                while (end < length && text[end] != '<' && text[end] != '>')
                    end++;
                if (box.has_angle || end == length || text[end] != '>')
                    goto odd;
                box.has_angle = 1;
                box.angle = at + 1;
                box.angle_end = end;
                at = end + 1;
            } else if (is_blank((unsigned char)c)) {
                at++;
            } else {
                if (box.name_size)
                    box.name[box.name_size++] = ' ';
                while (at < length && !is_blank((unsigned char)text[at]) && text[at] != ',' && text[at] != '"'
                       && text[at] != '<') {
                    if (text[at] == '>')
                        goto odd;
                    box.has_at |= text[at] == '@';
                    box.name[box.name_size++] = text[at];
                    box.bare[box.bare_size++] = text[at++];
                }
            }
        }
        if (at - begin > LONGEST_MAILBOX)
            goto odd;
        at++;
        PyObject *address;
        if (box.has_angle) {
            size_t first = box.angle;
            while (first < box.angle_end && is_blank((unsigned char)text[first]))
                first++;
            if (first < box.angle_end && text[first] == '"')
                goto odd;
            address = make_mailbox(make, box.name, box.name_size, text + box.angle, box.angle_end - box.angle);
        } else if (box.has_quotes) {
            goto odd;
        } else if (box.has_at) {
            address = make_mailbox(make, NULL, 0, box.bare, box.bare_size);
        } else {
            address = make_mailbox(make, box.name, box.name_size, NULL, 0);
        }
        if (!address || (address != Py_None && PyList_Append(found, address) < 0))
            Py_CLEAR(found);
        Py_XDECREF(address);
    }
    return found;
odd:
    Py_DECREF(found);
    Py_RETURN_NONE;
}
