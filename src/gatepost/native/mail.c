/* Header sections, delimiters, and words that may hold links. Part of `_speedups.c`. */

/* ---------------------------------------------------------------- header sections and delimiters of mail */

#define MAX_NAME 64
#define NAME_SLOTS 512

/* Names of header fields are few: each is made once. A slot holds one name, and a newcomer takes its place. */
static PyObject *field_names[NAME_SLOTS];

/* What a line begins with that goes on with a field. */
static int is_fold(unsigned char c)
{
    return c == ' ' || c == '\t';
}

/* The name of a field in lower case; a new reference. */
static PyObject *make_name(const unsigned char *name, size_t size)
{
    char lower[MAX_NAME];
    if (size > MAX_NAME) {
        PyObject *text = PyUnicode_DecodeASCII((const char *)name, (Py_ssize_t)size, NULL);
        PyObject *result = text ? PyObject_CallMethod(text, "lower", NULL) : NULL;
        Py_XDECREF(text);
        return result;
    }
    for (size_t i = 0; i < size; i++)
        lower[i] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] + 32 : name[i]);
    PyObject **slot = &field_names[hash_bytes(lower, size) % NAME_SLOTS];
    if (!*slot || (size_t)PyUnicode_GET_LENGTH(*slot) != size || memcmp(PyUnicode_1BYTE_DATA(*slot), lower, size)) {
        PyObject *made = PyUnicode_DecodeASCII(lower, (Py_ssize_t)size, NULL);
        if (!made)
            return NULL;
        Py_XSETREF(*slot, made);
    }
    return Py_NewRef(*slot);
}

/* The value of a field between two places, unfolded and stripped; a new reference. */
static PyObject *make_value(const unsigned char *bytes, size_t start, size_t end, int is_folded)
{
    PyObject *value;
    if (!is_folded) {
        while (start < end && is_blank(bytes[start]))
            start++;
        while (end > start && is_blank(bytes[end - 1]))
            end--;
        return PyUnicode_DecodeASCII((const char *)bytes + start, (Py_ssize_t)(end - start), NULL);
    }
    unsigned char *text = PyMem_Malloc(end - start + 1);
    if (!text)
        return PyErr_NoMemory();
    size_t size = 0, first = 0;
    for (size_t i = start; i < end; i++)
        if (bytes[i] != '\n' && !(bytes[i] == '\r' && i + 1 < end && bytes[i + 1] == '\n'))
            text[size++] = bytes[i];
    while (first < size && is_blank(text[first]))
        first++;
    while (size > first && is_blank(text[size - 1]))
        size--;
    value = PyUnicode_DecodeASCII((const char *)text + first, (Py_ssize_t)(size - first), NULL);
    PyMem_Free(text);
    return value;
}

/* What is known of a section before any object is made of it. */
typedef struct {
    size_t end, body, fields, crlf, lf, cr;
} Section;

/* Go through the lines up to an empty one; 0 where all of them are fields. */
static int scan_section(const unsigned char *bytes, size_t start, size_t limit, Section *found)
{
    size_t at = start;
    int likely_crlf = 0;
    *found = (Section){0};
    while (at < limit) {
        const unsigned char *feed = memchr(bytes + at, '\n', limit - at);
        if (!feed)
            return -1;
        size_t eol = (size_t)(feed - bytes);
        int is_empty = eol == at || (eol == at + 1 && bytes[at] == '\r');
        if (at == start) {
            likely_crlf = eol > 0 && bytes[eol - 1] == '\r';
        } else if (is_empty) {
            /* One empty line after another in the other kind of line end: not ordinary. */
            if (eol == at && likely_crlf && eol + 2 < limit && bytes[eol + 1] == '\r' && bytes[eol + 2] == '\n')
                return -1;
            if (eol != at && !likely_crlf && eol + 1 < limit && bytes[eol + 1] == '\n')
                return -1;
            found->end = at;
            found->body = eol + 1;
            return 0;
        }
        if (is_empty)
            return -1;
        for (size_t i = at; i < eol; i++) {
            if (bytes[i] == 0 || bytes[i] >= 128)
                return -1;
            found->cr += bytes[i] == '\r';
        }
        found->lf++;
        found->crlf += bytes[eol - 1] == '\r';
        if (is_fold(bytes[at])) {
            if (at == start)
                return -1;
        } else {
            size_t name = at;
            while (name < eol && bytes[name] > 32 && bytes[name] < 127 && bytes[name] != ':')
                name++;
            size_t colon = name;
            while (colon < eol && is_fold(bytes[colon]))
                colon++;
            if (name == at || bytes[colon] != ':' || (bytes[at] == '-' && bytes[at + 1] == '-'))
                return -1;
            found->fields++;
        }
        at = eol + 1;
    }
    return -1;
}

static PyObject *make_field(const unsigned char *bytes, size_t at, size_t until, int is_folded, PyObject *make,
                            PyObject *decode)
{
    size_t name = at;
    while (bytes[name] > 32 && bytes[name] != ':')
        name++;
    size_t colon = name;
    while (bytes[colon] != ':')
        colon++;
    PyObject *given[3] = {
        make_name(bytes + at, name - at),
        make_value(bytes, colon + 1, until - 1, is_folded),
        PyBytes_FromStringAndSize((const char *)bytes + at, (Py_ssize_t)(until - at)),
    };
    if (given[1] && memmem(PyUnicode_1BYTE_DATA(given[1]), (size_t)PyUnicode_GET_LENGTH(given[1]), "=?", 2))
        Py_SETREF(given[1], PyObject_CallOneArg(decode, given[1]));
    PyObject *field = given[0] && given[1] && given[2] ? PyObject_Vectorcall(make, given, 3, NULL) : NULL;
    for (int i = 0; i < 3; i++)
        Py_XDECREF(given[i]);
    return field;
}

static PyObject *split_fields(PyObject *self, PyObject *args)
{
    PyObject *source, *make, *decode;
    Py_ssize_t start, window, largest, most;
    (void)self;
    if (!PyArg_ParseTuple(args, "SnnnnOO", &source, &start, &window, &largest, &most, &make, &decode))
        return NULL;
    const unsigned char *bytes = (const unsigned char *)PyBytes_AS_STRING(source);
    Py_ssize_t length = PyBytes_GET_SIZE(source);
    if (start < 0 || window < 0 || start > length) {
        PyErr_SetString(PyExc_ValueError, "the place is out of range");
        return NULL;
    }
    Section found;
    size_t limit = (size_t)(window < length - start ? start + window : length);
    if (scan_section(bytes, (size_t)start, limit, &found) < 0 || (Py_ssize_t)found.fields > most
        || (Py_ssize_t)found.end - start > largest)
        Py_RETURN_NONE;
    PyObject *fields = PyTuple_New((Py_ssize_t)found.fields);
    size_t at = (size_t)start;
    for (Py_ssize_t i = 0; fields && i < (Py_ssize_t)found.fields; i++) {
        size_t until = at;
        int lines = 0;
        do {
            until = (size_t)((const unsigned char *)memchr(bytes + until, '\n', found.end - until) - bytes) + 1;
            lines++;
        } while (until < found.end && is_fold(bytes[until]));
        PyObject *field = make_field(bytes, at, until, lines > 1, make, decode);
        if (!field)
            Py_CLEAR(fields);
        else
            PyTuple_SET_ITEM(fields, i, field);
        at = until;
    }
    return fields ? Py_BuildValue("(Nnii)", fields, (Py_ssize_t)found.body, found.cr != found.crlf,
                                  found.crlf && found.lf != found.crlf)
                  : NULL;
}

/* Whether a set has these bytes; -1 for an error. */
static int has_bytes(PyObject *set, const unsigned char *bytes, size_t size)
{
    if (!PySet_GET_SIZE(set))
        return 0;
    PyObject *line = PyBytes_FromStringAndSize((const char *)bytes, (Py_ssize_t)size);
    int result = line ? PySet_Contains(set, line) : -1;
    Py_XDECREF(line);
    return result;
}

#define LONGEST_DELIMITER 997

/* Whether the line after `--` means anything: it is one of the names or its end, or begins with an open one. */
static int is_delimiter_line(const unsigned char *line, size_t size, PyObject *opened, PyObject *closed,
                             PyObject *prefixes)
{
    int found = has_bytes(opened, line, size);
    if (!found)
        found = has_bytes(closed, line, size);
    if (!found && size >= 2 && line[size - 1] == '-' && line[size - 2] == '-') {
        found = has_bytes(opened, line, size - 2);
        if (!found)
            found = has_bytes(closed, line, size - 2);
    }
    for (Py_ssize_t i = 0; !found && i < PyTuple_GET_SIZE(prefixes); i++) {
        PyObject *name = PyTuple_GET_ITEM(prefixes, i);
        found = PyBytes_Check(name) && (size_t)PyBytes_GET_SIZE(name) <= size
                && !memcmp(line, PyBytes_AS_STRING(name), (size_t)PyBytes_GET_SIZE(name));
    }
    return found;
}

static PyObject *find_delimiter(PyObject *self, PyObject *args)
{
    PyObject *source, *opened, *closed, *prefixes;
    Py_ssize_t at, most, taken = 0;
    (void)self;
    if (!PyArg_ParseTuple(args, "SnO!O!O!n", &source, &at, &PyFrozenSet_Type, &opened, &PyFrozenSet_Type, &closed,
                          &PyTuple_Type, &prefixes, &most))
        return NULL;
    const unsigned char *bytes = (const unsigned char *)PyBytes_AS_STRING(source);
    size_t length = (size_t)PyBytes_GET_SIZE(source), place = at < 0 ? 0 : (size_t)at;
    while (place < length) {
        const unsigned char *found = memmem(bytes + place, length - place, "\n--", 3);
        if (!found)
            break;
        size_t start = (size_t)(found - bytes) + 3, end = length;
        if (taken >= most)
            return Py_BuildValue("(nni)", (Py_ssize_t)start - 3, taken, 0);
        taken++;
        const unsigned char *feed = memchr(bytes + start, '\n', length - start);
        if (feed)
            end = (size_t)(feed - bytes);
        place = end;
        if (end - start > LONGEST_DELIMITER)
            end = start + LONGEST_DELIMITER;
        while (end > start && (is_fold(bytes[end - 1]) || bytes[end - 1] == '\r'))
            end--;
        int is_found = is_delimiter_line(bytes + start, end - start, opened, closed, prefixes);
        if (is_found < 0)
            return NULL;
        if (is_found)
            return Py_BuildValue("(nni)", (Py_ssize_t)start - 3, taken, 1);
    }
    return Py_BuildValue("(nni)", (Py_ssize_t)-1, taken, 0);
}

static int is_line_end(unsigned char c)
{
    return c == '\r' || c == '\n' || c == 0;
}

/* Whether a content field stands near: after up to three runs of line ends, and up to 40 characters of its line. */
static int has_content_field(const unsigned char *bytes, size_t at, size_t limit)
{
    for (int run = 0; run < 3; run++) {
        if (at >= limit || !is_line_end(bytes[at]))
            return 0;
        while (at < limit && is_line_end(bytes[at]))
            at++;
        while (at < limit && is_fold(bytes[at]))
            at++;
        for (size_t i = at; i <= at + 40 && i + 8 <= limit; i++) {
            size_t same = 0;
            while (same < 8 && (bytes[i + same] | 32) == "content-"[same] && (same < 7 || bytes[i + same] == '-'))
                same++;
            if (same == 8)
                return 1;
            if (bytes[i] == '\r' || bytes[i] == '\n')
                break;
        }
    }
    return 0;
}

/* Where `content-t` begins between two places, in any case; -1 for nowhere. */
static Py_ssize_t content_field_place(const unsigned char *bytes, Py_ssize_t length, Py_ssize_t start, Py_ssize_t end)
{
    Py_ssize_t at = (start < 0 ? 0 : start) + 7;
    /* The hyphen is the rarest of its characters. */
    while (at + 1 < length && at - 7 < end) {
        const unsigned char *hyphen = memchr(bytes + at, '-', (size_t)(length - 1 - at));
        if (!hyphen)
            break;
        at = hyphen - bytes;
        int same = (bytes[at + 1] | 32) == 't';
        for (int i = 0; same && i < 7; i++)
            same = (bytes[at - 7 + i] | 32) == "content"[i];
        if (same && at - 7 < end)
            return at - 7;
        at++;
    }
    return -1;
}

static PyObject *find_content_field(PyObject *self, PyObject *args)
{
    PyObject *source;
    Py_ssize_t start, end;
    (void)self;
    if (!PyArg_ParseTuple(args, "Snn", &source, &start, &end))
        return NULL;
    const unsigned char *bytes = (const unsigned char *)PyBytes_AS_STRING(source);
    return PyLong_FromSsize_t(content_field_place(bytes, PyBytes_GET_SIZE(source), start, end));
}

static PyObject *find_segments(PyObject *self, PyObject *args)
{
    PyObject *source;
    Py_ssize_t limit, most;
    (void)self;
    if (!PyArg_ParseTuple(args, "Snn", &source, &limit, &most))
        return NULL;
    const unsigned char *bytes = (const unsigned char *)PyBytes_AS_STRING(source);
    if (limit > PyBytes_GET_SIZE(source))
        limit = PyBytes_GET_SIZE(source);
    PyObject *found = PyList_New(0);
    size_t end = limit > 0 ? (size_t)limit : 0, at = 0;
    while (found && at < end && PyList_GET_SIZE(found) < most) {
        while (at < end && is_fold(bytes[at]))
            at++;
        size_t start = at;
        while (at < end && !is_line_end(bytes[at]))
            at++;
        if (at - start >= 2 && bytes[start] == '-' && bytes[start + 1] == '-' && has_content_field(bytes, at, end)) {
            PyObject *pair = Py_BuildValue("(nn)", (Py_ssize_t)start, (Py_ssize_t)at);
            if (!pair || PyList_Append(found, pair) < 0)
                Py_CLEAR(found);
            Py_XDECREF(pair);
        }
        at++;
    }
    return found;
}

/* ---------------------------------------------------------------- words that may hold links */

#define LONGEST_ENDING 8

/* Whether a dot in ASCII text is one that links have: after `www`, or before one of the endings. -1 for an error. */
static int is_link_dot(const unsigned char *text, size_t length, size_t at, PyObject *endings)
{
    size_t back = at, size = 0;
    while (back > 0 && at - back < 2 && text[back - 1] >= '0' && text[back - 1] <= '9')
        back--;
    for (size_t i = back; i <= at; i++)
        if (i > 0 && (text[i - 1] | 32) == 'w')
            return 1;
    char ending[LONGEST_ENDING];
    while (at + 1 + size < length && (is_word_character(text[at + 1 + size]) || text[at + 1 + size] == '_')) {
        if (size == LONGEST_ENDING)
            return 0;
        unsigned char c = text[at + 1 + size];
        ending[size++] = (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
    }
    if (!size || (at + 1 + size < length && (text[at + 1 + size] == '@' || text[at + 1 + size] == '-')))
        return 0;
    PyObject *word = PyUnicode_DecodeASCII(ending, (Py_ssize_t)size, NULL);
    int result = word ? PySet_Contains(endings, word) : -1;
    Py_XDECREF(word);
    return result;
}

static int is_link_colon(const unsigned char *text, size_t length, size_t at)
{
    if (at > 0 && (text[at - 1] | 32) == 'o')
        return 1;
    return at + 1 < length && (text[at + 1] == '/' || text[at + 1] == '\\' || text[at + 1] == ']');
}

static PyObject *link_words(PyObject *self, PyObject *args)
{
    PyObject *source, *endings;
    (void)self;
    if (!PyArg_ParseTuple(args, "UO!", &source, &PyFrozenSet_Type, &endings))
        return NULL;
    if (!PyUnicode_IS_ASCII(source)) {
        PyErr_SetString(PyExc_ValueError, "the text must be ASCII");
        return NULL;
    }
    const unsigned char *text = PyUnicode_1BYTE_DATA(source);
    size_t length = (size_t)PyUnicode_GET_LENGTH(source), first = 0;
    PyObject *found = PyList_New(0);
    for (size_t at = 0; found && at < length; at++) {
        if (text[at] == ' ')
            first = at + 1;
        if (text[at] != '.' && text[at] != ':')
            continue;
        int is_link = text[at] == '.' ? is_link_dot(text, length, at, endings) : is_link_colon(text, length, at);
        if (!is_link)
            continue;
        const unsigned char *blank = memchr(text + at, ' ', length - at);
        at = blank ? (size_t)(blank - text) : length;
        PyObject *word = is_link < 0 ? NULL : Py_BuildValue("(nn)", (Py_ssize_t)first, (Py_ssize_t)at);
        if (!word || PyList_Append(found, word) < 0)
            Py_CLEAR(found);
        Py_XDECREF(word);
        first = at + 1;
    }
    return found;
}
