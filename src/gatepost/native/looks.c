/* Cheap looks at text that most checks begin with: whether what they search for can be there at all.

Each function reads bytes, one for each character: those of a text of one byte a character as they are, and of others a
copy in which a wider character is `WIDE`. Nothing is kept. */

enum { SMALL_LETTER = 1, DIGIT = 2, MARK = 4, GAP = 8, INSIDE_WORD = 16, IN_RUN = 32, LIKE_DIGIT = 64, IN_NUMBER = 128 };

#define LONGEST_BEGINNING 12
#define WIDE 0x80

static unsigned char sorts[256];
static PyObject *name_attribute, *raw_attribute, *url_attribute;

static int intern_attributes(void)
{
    name_attribute = PyUnicode_InternFromString("name");
    raw_attribute = PyUnicode_InternFromString("raw");
    url_attribute = PyUnicode_InternFromString("url");
    return name_attribute && raw_attribute && url_attribute ? 0 : -1;
}

/* As `_LETTERS_AND_MARKS`, `_LETTERS_AND_GAPS`, `_BEFORE_WORD` and `_BROKEN_RUNS` of `checks.text.advertising` say; and
what telephone numbers of `checks.text.fraud` are written with. */
static void fill_sorts(void)
{
    for (int c = 0; c < 256; c++) {
        unsigned char found = 0;
        if (c >= 'a' && c <= 'z')
            found |= SMALL_LETTER | INSIDE_WORD | IN_RUN;
        else if (c >= '0' && c <= '9')
            found |= DIGIT | MARK | INSIDE_WORD;
        else if (c >= 'A' && c <= 'Z')
            found |= INSIDE_WORD;
        else if (c >= 0xe0 || c == ' ' || c == '\n' || c == '\t')
            found |= IN_RUN;
        if (c && c < 128) {
            if (strchr("@!$|", c))
                found |= MARK;
            if (strchr(" .-_*~", c))
                found |= GAP;
            if (strchr("_@./:=&?%#$!|-", c))
                found |= INSIDE_WORD;
            if (strchr("0123456789oilszb|", c))
                found |= LIKE_DIGIT | IN_NUMBER;
            if (strchr(" .-_~*(){}[]/|+", c))
                found |= IN_NUMBER;
        } else if (c == WIDE || c == 0xb7) {
            found |= IN_NUMBER; /* dashes, dots and bullets */
        }
        sorts[c] = found;
    }
}

/* field_signs(fields, table, spelled, odd): what the table says of the names of header fields, together; and `odd` where
one of those whose spelling is given has other bytes before its colon, or bytes that are not ASCII. */
static PyObject *field_signs(PyObject *self, PyObject *args)
{
    PyObject *fields, *table, *spelled;
    unsigned long long odd, found = 0;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!O!O!K", &PyTuple_Type, &fields, &PyDict_Type, &table, &PyDict_Type, &spelled, &odd))
        return NULL;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(fields); i++) {
        PyObject *field = PyTuple_GET_ITEM(fields, i), *name = PyObject_GetAttr(field, name_attribute);
        if (!name)
            return NULL;
        PyObject *bits = PyDict_GetItemWithError(table, name);
        if (bits)
            found |= PyLong_AsUnsignedLongLong(bits);
        PyObject *spelling = PyErr_Occurred() ? NULL : PyDict_GetItemWithError(spelled, name);
        Py_DECREF(name);
        if (PyErr_Occurred())
            return NULL;
        if (!spelling || found & odd)
            continue;
        PyObject *raw = PyObject_GetAttr(field, raw_attribute);
        if (!raw)
            return NULL;
        if (!PyBytes_Check(raw) || !PyBytes_Check(spelling)) {
            Py_DECREF(raw);
            PyErr_SetString(PyExc_TypeError, "bytes are needed");
            return NULL;
        }
        Py_ssize_t size = PyBytes_GET_SIZE(raw), prefix = PyBytes_GET_SIZE(spelling);
        const char *bytes = PyBytes_AS_STRING(raw);
        if (size < prefix || memcmp(bytes, PyBytes_AS_STRING(spelling), (size_t)prefix))
            found |= odd;
        for (Py_ssize_t at = 0; at < size && !(found & odd); at++)
            if (bytes[at] & 0x80)
                found |= odd;
        Py_DECREF(raw);
    }
    return PyLong_FromUnsignedLongLong(found);
}

/* The bytes of a text; `copy` is what to free afterwards, or NULL. NULL with an exception where it is no text. */
static const unsigned char *take_bytes(PyObject *text, unsigned char **copy)
{
    *copy = NULL;
    if (!PyUnicode_Check(text)) {
        PyErr_SetString(PyExc_TypeError, "a text is needed");
        return NULL;
    }
    if (PyUnicode_KIND(text) == PyUnicode_1BYTE_KIND)
        return PyUnicode_1BYTE_DATA(text);
    Py_ssize_t size = PyUnicode_GET_LENGTH(text);
    unsigned char *bytes = PyMem_Malloc((size_t)size + 1);
    if (!bytes) {
        PyErr_NoMemory();
        return NULL;
    }
    int kind = PyUnicode_KIND(text);
    const void *data = PyUnicode_DATA(text);
    for (Py_ssize_t at = 0; at < size; at++) {
        Py_UCS4 c = PyUnicode_READ(kind, data, at);
        bytes[at] = c < 256 ? (unsigned char)c : WIDE;
    }
    *copy = bytes;
    return bytes;
}

static int add_place(PyObject *places, Py_ssize_t at)
{
    PyObject *place = PyLong_FromSsize_t(at);
    int status = place ? PyList_Append(places, place) : -1;
    Py_XDECREF(place);
    return status;
}

/* spelled_places(text): where words begin that have a mark right after their first letters, and whether three single
letters stand with gaps around them, of one or two characters between them. */
static PyObject *spelled_places(PyObject *self, PyObject *text)
{
    (void)self;
    unsigned char *copy;
    const unsigned char *bytes = take_bytes(text, &copy);
    if (!bytes)
        return NULL;
    PyObject *places = PyList_New(0);
    Py_ssize_t size = PyUnicode_GET_LENGTH(text), single = -9;
    int chain = 0, is_spaced = 0;
    for (Py_ssize_t at = 1; places && at < size; at++) {
        unsigned char sort = sorts[bytes[at]], before = sorts[bytes[at - 1]];
        if (sort & MARK && before & SMALL_LETTER) {
            Py_ssize_t start = at - 1;
            while (start > 0 && at - start <= LONGEST_BEGINNING && sorts[bytes[start - 1]] & SMALL_LETTER)
                start--;
            if (at - start <= LONGEST_BEGINNING && (!start || !(sorts[bytes[start - 1]] & INSIDE_WORD)) &&
                add_place(places, start) < 0)
                Py_CLEAR(places);
        } else if (sort & GAP && before & (SMALL_LETTER | DIGIT) && at > 1 && sorts[bytes[at - 2]] & GAP) {
            /* The gap between two single letters has one character, or two. */
            Py_ssize_t apart = at - 1 - single;
            int joined = apart == 2 || (apart == 3 && sorts[bytes[at - 3]] & GAP);
            chain = joined ? chain + 1 : 1;
            single = at - 1;
            is_spaced |= chain >= 3;
        }
    }
    PyMem_Free(copy);
    return places ? Py_BuildValue("(NO)", places, is_spaced ? Py_True : Py_False) : NULL;
}

/* has_long_run(text, least): whether so many small letters of Latin-1 and blanks stand in a row. Each step goes on after
the last break within reach, so that most characters are never looked at. */
static PyObject *has_long_run(PyObject *self, PyObject *args)
{
    PyObject *text;
    Py_ssize_t least;
    (void)self;
    if (!PyArg_ParseTuple(args, "Un", &text, &least))
        return NULL;
    if (least < 1) {
        PyErr_SetString(PyExc_ValueError, "a run has a character at least");
        return NULL;
    }
    unsigned char *copy;
    const unsigned char *bytes = take_bytes(text, &copy);
    if (!bytes)
        return NULL;
    Py_ssize_t size = PyUnicode_GET_LENGTH(text), start = 0;
    int found = 0;
    while (!found && least <= size - start) {
        Py_ssize_t at = start + least;
        while (at > start && sorts[bytes[at - 1]] & IN_RUN)
            at--;
        found = at == start;
        start = at;
    }
    PyMem_Free(copy);
    return PyBool_FromLong(found);
}

/* Whether one of the words for digits begins at a place of a folded text. */
static int is_digit_word(const unsigned char *bytes, Py_ssize_t room)
{
    static const char *const words[] = {"zero", "oh",    "one",   "two",  "three",  "four",  "five",
                                        "six",  "seven", "eight", "nine", "triple", "double"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        /* Nearly all words end here: their length is not worth a look before. */
        if (bytes[0] != (unsigned char)words[i][0])
            continue;
        size_t length = strlen(words[i]);
        if ((size_t)room >= length && !memcmp(bytes, words[i], length))
            return 1;
    }
    return 0;
}

/* The least of what is in a number that is written for people only: as `_LOOKALIKE_DIGITS` and `_LEAST_REAL_DIGITS`,
`_SPREAD_DIGITS` and `_DIGIT_WORDS` of `checks/text/fraud.py` say. */
enum { LEAST_LIKE_DIGITS = 10, LEAST_DIGITS = 5, LEAST_DIGIT_WORDS = 7 };

/* may_spell_number(text): whether a folded text may hold a telephone number with letters for digits, with gaps after
each digit, or in words. */
static PyObject *may_spell_number(PyObject *self, PyObject *text)
{
    (void)self;
    unsigned char *copy;
    const unsigned char *bytes = take_bytes(text, &copy);
    if (!bytes)
        return NULL;
    Py_ssize_t size = PyUnicode_GET_LENGTH(text);
    int like = 0, digits = 0, words = 0, found = 0;
    unsigned char before = 0;
    for (Py_ssize_t at = 0; at < size && !found; at++) {
        unsigned char sort = sorts[bytes[at]];
        /* A run of what a number is written with, in which there is enough of it. */
        like = sort & IN_NUMBER ? like + !!(sort & LIKE_DIGIT) : 0;
        digits = sort & IN_NUMBER ? digits + !!(sort & DIGIT) : 0;
        if (sort & SMALL_LETTER && !(before & SMALL_LETTER))
            words += is_digit_word(bytes + at, size - at);
        before = sort;
        found = (like >= LEAST_LIKE_DIGITS && digits >= LEAST_DIGITS) || words >= LEAST_DIGIT_WORDS;
    }
    PyMem_Free(copy);
    return PyBool_FromLong(found);
}
