/* Words and blanks of a text. Part of `_speedups.c`. */

/* ---------------------------------------------------------------- the words that the writer of a mail chose */

#define MAX_SIGNATURE 12
#define FEW_LINES 2
#define FEW_CHARS 60

/* White space as str.split sees it in ASCII text. */
static int is_blank(unsigned char c)
{
    return c == ' ' || (c >= 9 && c <= 13) || (c >= 28 && c <= 31);
}

static int contains(const char *text, size_t size, const char *piece, size_t length)
{
    return size >= length && memmem(text, size, piece, length) != NULL;
}

static int begins_with(Slice line, const char *start)
{
    size_t size = strlen(start);
    return line.size >= size && !memcmp(line.start, start, size);
}

static int ends_with(Slice line, const char *end)
{
    size_t size = strlen(end);
    return line.size >= size && !memcmp(line.start + line.size - size, end, size);
}

/* Whether a word is, or holds, a mail or web address. */
static int is_address(Slice word)
{
    return memchr(word.start, '@', word.size) || contains(word.start, word.size, "://", 3)
        || contains(word.start, word.size, "www.", 4);
}

/* Whether a line is quoted, or introduces quotes. */
static int is_foreign_line(Slice line)
{
    static const char *fields[] = {"from", "to", "cc", "sent", "date", "subject", "reply-to", "url", "von", "an",
                                   "gesendet", "betreff"};
    static const char *said[] = {" wrote:", " writes:", " schrieb:", " scrisse:", " said:"};
    if (line.start[0] == '>' || line.start[0] == '|')
        return 1;
    const char *colon = memchr(line.start, ':', line.size);
    if (!colon)
        return 0;
    if (colon > line.start && colon - line.start < 12) {
        const char *first = line.start, *last = colon;
        while (first < last && (*first == '*' || *first == ' ' || *first == '\t'))
            first++;
        while (last > first && (last[-1] == '*' || last[-1] == ' ' || last[-1] == '\t'))
            last--;
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
            size_t size = strlen(fields[i]);
            int is_same = (size_t)(last - first) == size;
            for (size_t at = 0; is_same && at < size; at++)
                is_same = (first[at] >= 'A' && first[at] <= 'Z' ? first[at] + 32 : first[at]) == fields[i][at];
            if (is_same)
                return 1;
        }
    }
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        if (ends_with(line, said[i]))
            return 1;
    return 0;
}

static int is_signature_mark(Slice line)
{
    while (line.size && is_blank((unsigned char)line.start[line.size - 1]))
        line.size--;
    return (line.size == 2 && !memcmp(line.start, "--", 2)) || begins_with(line, "__________")
        || begins_with(line, "-----BEGIN PGP");
}

/* The next word of a line from `*at` on; 0 where there is none. */
static int next_word(Slice line, size_t *at, Slice *word)
{
    while (*at < line.size && is_blank((unsigned char)line.start[*at]))
        (*at)++;
    size_t start = *at;
    while (*at < line.size && !is_blank((unsigned char)line.start[*at]))
        (*at)++;
    *word = (Slice){line.start + start, *at - start};
    return *at > start;
}

/* How long a line is without its addresses. */
static size_t size_without_addresses(Slice line)
{
    if (!is_address(line))
        return line.size;
    size_t at = 0, total = 0, count = 0;
    for (Slice word; next_word(line, &at, &word);)
        if (!is_address(word)) {
            total += word.size;
            count++;
        }
    return count ? total + count - 1 : 0;
}

/* The text by a table that has a byte for each character, 0 for one that it does not know; NULL with no error where
   there is such a character. */
static unsigned char *replace_characters(PyObject *text, const Py_buffer *table)
{
    size_t length = (size_t)PyUnicode_GET_LENGTH(text);
    int kind = PyUnicode_KIND(text);
    const void *data = PyUnicode_DATA(text);
    const unsigned char *by = table->buf;
    unsigned char *plain = PyMem_Malloc(length + 1);
    if (!plain) {
        PyErr_NoMemory();
        return NULL;
    }
    for (size_t i = 0; i < length; i++) {
        Py_UCS4 c = PyUnicode_READ(kind, data, (Py_ssize_t)i);
        plain[i] = c < (size_t)table->len ? by[c] : 0;
        if (!plain[i]) {
            PyMem_Free(plain);
            return NULL;
        }
    }
    return plain;
}

/* A letter that had an accent has its high bit set: it is a letter, and equal to no other. */
static int is_letter_or_digit(unsigned char c)
{
    return c >= 0x80 || is_word_character(c);
}

static int append_word(PyObject *words, const char *start, size_t size)
{
    PyObject *word = PyUnicode_New((Py_ssize_t)size, 127);
    if (!word)
        return -1;
    Py_UCS1 *letters = PyUnicode_1BYTE_DATA(word);
    for (size_t i = 0; i < size; i++) {
        char c = start[i] & 0x7F;
        letters[i] = (Py_UCS1)(c >= 'A' && c <= 'Z' ? c + 32 : c);
    }
    int result = PyList_Append(words, word);
    Py_DECREF(word);
    return result;
}

/* Append the words of a piece of text: runs of letters and digits, and each of three signs. */
static int append_words(PyObject *words, Slice text)
{
    size_t at = 0;
    while (at < text.size) {
        unsigned char c = (unsigned char)text.start[at];
        if (is_letter_or_digit(c)) {
            size_t start = at;
            while (at < text.size && is_letter_or_digit((unsigned char)text.start[at]))
                at++;
            if (append_word(words, text.start + start, at - start) < 0)
                return -1;
        } else {
            if ((c == '$' || c == '%' || c == '!') && append_word(words, text.start + at, 1) < 0)
                return -1;
            at++;
        }
    }
    return 0;
}

static int append_line(PyObject *words, Slice line)
{
    if (!is_address(line))
        return append_words(words, line);
    size_t at = 0;
    for (Slice word; next_word(line, &at, &word);)
        if (!is_address(word) && append_words(words, word) < 0)
            return -1;
    return 0;
}

static PyObject *written_words(PyObject *self, PyObject *args)
{
    PyObject *text;
    Py_buffer table;
    (void)self;
    if (!PyArg_ParseTuple(args, "Uy*", &text, &table))
        return NULL;
    size_t length = (size_t)PyUnicode_GET_LENGTH(text), count = 0, total = 0, kept = 0;
    if (length > MAX_ITEMS)
        PyErr_SetString(PyExc_ValueError, "the text is too long");
    unsigned char *copy = length > MAX_ITEMS || PyUnicode_IS_ASCII(text) ? NULL : replace_characters(text, &table);
    PyBuffer_Release(&table);
    if (PyErr_Occurred())
        return NULL;
    if (!copy && !PyUnicode_IS_ASCII(text))
        Py_RETURN_NONE;
    const char *start = copy ? (const char *)copy : (const char *)PyUnicode_1BYTE_DATA(text);
    Slice *lines = PyMem_Malloc((length / 2 + 2) * sizeof *lines);
    char *is_own = PyMem_Calloc(length / 2 + 2, 1);
    PyObject *words = PyList_New(0), *result = NULL;
    if (!lines || !is_own || !words) {
        PyErr_NoMemory();
        goto end;
    }
    for (size_t at = 0; at < length;) {
        const char *stop = memchr(start + at, '\n', length - at);
        size_t size = (stop ? (size_t)(stop - start) : length) - at;
        if (size)
            lines[count++] = (Slice){start + at, size};
        at += size + 1;
    }
    size_t written = count;
    for (size_t i = count > MAX_SIGNATURE ? count - MAX_SIGNATURE : 0; i < count; i++)
        if (is_signature_mark(lines[i])) {
            written = i;
            break;
        }
    for (size_t i = 0; i < written; i++)
        if (!is_foreign_line(lines[i])) {
            is_own[i] = 1;
            kept++;
            total += size_without_addresses(lines[i]);
        }
    if (total < FEW_CHARS && count > FEW_LINES) {
        total = 0;
        kept = count;
        for (size_t i = 0; i < count; i++) {
            is_own[i] = 1;
            total += size_without_addresses(lines[i]);
        }
    }
    for (size_t i = 0; i < count; i++)
        if (is_own[i] && append_line(words, lines[i]) < 0)
            goto end;
    result = Py_BuildValue("(On)", words, (Py_ssize_t)(total + (kept ? kept - 1 : 0)));
end:
    Py_XDECREF(words);
    PyMem_Free(lines);
    PyMem_Free(is_own);
    PyMem_Free(copy);
    return result;
}

/* Letters and digits, and signs that are words by themselves: 1 and 2; 0 for what stands between words. */
static int sort_character(Py_UCS4 c)
{
    if (c < 128)
        return is_word_character((unsigned char)c) ? 1 : c == '$' || c == '%' || c == '!' ? 2 : 0;
    return Py_UNICODE_ISALNUM(c) ? 1 : c == 0x20AC || c == 0xA3 ? 2 : 0;
}

static PyObject *split_words(PyObject *self, PyObject *text)
{
    (void)self;
    if (!PyUnicode_Check(text)) {
        PyErr_SetString(PyExc_TypeError, "the text must be a string");
        return NULL;
    }
    int kind = PyUnicode_KIND(text);
    const void *data = PyUnicode_DATA(text);
    Py_ssize_t length = PyUnicode_GET_LENGTH(text), at = 0;
    PyObject *words = PyList_New(0);
    while (words && at < length) {
        int sort = sort_character(PyUnicode_READ(kind, data, at));
        Py_ssize_t start = at++;
        if (!sort)
            continue;
        while (sort == 1 && at < length && sort_character(PyUnicode_READ(kind, data, at)) == 1)
            at++;
        PyObject *word = PyUnicode_Substring(text, start, at);
        if (!word || PyList_Append(words, word) < 0)
            Py_CLEAR(words);
        Py_XDECREF(word);
    }
    return words;
}

/* ---------------------------------------------------------------- blanks of a text */

#define BREAK 0x1E

/* The same for ASCII text: words are copied whole. */
static PyObject *squeeze_ascii(const char *text, size_t length, int with_breaks)
{
    char *kept = PyMem_Malloc(length + 1);
    if (!kept)
        return PyErr_NoMemory();
    size_t size = 0, at = 0;
    while (at < length) {
        int has_break = 0;
        for (; at < length && is_blank((unsigned char)text[at]); at++)
            has_break |= text[at] == BREAK;
        size_t start = at;
        while (at < length && ((unsigned char)text[at] > ' ' || !is_blank((unsigned char)text[at])))
            at++;
        if (at == start)
            break;
        if (size)
            kept[size++] = with_breaks && has_break ? '\n' : ' ';
        memcpy(kept + size, text + start, at - start);
        size += at - start;
    }
    PyObject *result = PyUnicode_New((Py_ssize_t)size, 127);
    if (result)
        memcpy(PyUnicode_1BYTE_DATA(result), kept, size);
    PyMem_Free(kept);
    return result;
}

/* Runs of blanks as one; with breaks, runs that hold one as a line end. */
static PyObject *squeeze(PyObject *self, PyObject *args)
{
    PyObject *text;
    int with_breaks;
    (void)self;
    if (!PyArg_ParseTuple(args, "Up", &text, &with_breaks))
        return NULL;
    if (PyUnicode_IS_ASCII(text))
        return squeeze_ascii(PyUnicode_DATA(text), (size_t)PyUnicode_GET_LENGTH(text), with_breaks);
    int kind = PyUnicode_KIND(text);
    const void *data = PyUnicode_DATA(text);
    Py_ssize_t length = PyUnicode_GET_LENGTH(text), size = 0;
    void *kept = PyMem_Malloc((size_t)(length + 1) * (size_t)kind);
    if (!kept)
        return PyErr_NoMemory();
    Py_UCS4 pending = 0;
    for (Py_ssize_t i = 0; i < length; i++) {
        Py_UCS4 c = PyUnicode_READ(kind, data, i);
        if (Py_UNICODE_ISSPACE(c)) {
            if (size && pending != '\n')
                pending = with_breaks && c == BREAK ? '\n' : ' ';
            continue;
        }
        if (pending) {
            PyUnicode_WRITE(kind, kept, size, pending);
            size++;
            pending = 0;
        }
        PyUnicode_WRITE(kind, kept, size, c);
        size++;
    }
    PyObject *result = PyUnicode_FromKindAndData(kind, kept, size);
    PyMem_Free(kept);
    return result;
}

/* ASCII text as phrases are compared: small letters, runs of blanks as one, none at the ends, `email` for `e-mail`. */
static PyObject *fold_ascii(PyObject *self, PyObject *text)
{
    (void)self;
    if (!PyUnicode_Check(text) || !PyUnicode_IS_ASCII(text)) {
        PyErr_SetString(PyExc_ValueError, "the text must be ASCII");
        return NULL;
    }
    const unsigned char *given = PyUnicode_1BYTE_DATA(text);
    size_t length = (size_t)PyUnicode_GET_LENGTH(text), size = 0;
    unsigned char *kept = PyMem_Malloc(length + 1);
    if (!kept)
        return PyErr_NoMemory();
    int has_blank = 0;
    for (size_t i = 0; i < length; i++) {
        unsigned char c = given[i];
        if (c <= ' ' && is_blank(c)) {
            has_blank = size > 0;
            continue;
        }
        if (has_blank)
            kept[size++] = ' ';
        has_blank = 0;
        kept[size++] = c >= 'A' && c <= 'Z' ? c + 32 : c;
        if (kept[size - 1] == 'l' && size >= 6 && !memcmp(kept + size - 6, "e-mail", 6)) {
            memcpy(kept + size - 6, "email", 5);
            size--;
        }
    }
    PyObject *result = PyUnicode_New((Py_ssize_t)size, 127);
    if (result)
        memcpy(PyUnicode_1BYTE_DATA(result), kept, size);
    PyMem_Free(kept);
    return result;
}

#define UNKNOWN_CHARACTER 0xFFFF
#define FIRST_LONGER 0xE000
#define LAST_LONGER 0xF000
#define LONGEST_REPLACED 4

/* The text with each character as the table says, which has one for each of the first 65,536: that, or the number of a
   longer text from 0xE000 on, or 0xFFFF for what it does not know. None where there is such a character. */
static PyObject *transliterate(PyObject *self, PyObject *args)
{
    PyObject *text, *table, *longer;
    (void)self;
    if (!PyArg_ParseTuple(args, "UUO!", &text, &table, &PyTuple_Type, &longer))
        return NULL;
    size_t length = (size_t)PyUnicode_GET_LENGTH(text), size = 0;
    if (PyUnicode_KIND(table) != PyUnicode_2BYTE_KIND || PyUnicode_GET_LENGTH(table) != 65536 || length > MAX_ITEMS) {
        PyErr_SetString(PyExc_ValueError, "a table has 65,536 characters of two bytes");
        return NULL;
    }
    const Py_UCS2 *by = PyUnicode_2BYTE_DATA(table);
    int kind = PyUnicode_KIND(text);
    const void *data = PyUnicode_DATA(text);
    Py_UCS2 *plain = PyMem_Malloc((length * LONGEST_REPLACED + 1) * sizeof *plain);
    if (!plain)
        return PyErr_NoMemory();
    for (size_t i = 0; i < length; i++) {
        Py_UCS4 c = PyUnicode_READ(kind, data, (Py_ssize_t)i);
        Py_UCS2 known = c < 65536 ? by[c] : UNKNOWN_CHARACTER;
        if (known == UNKNOWN_CHARACTER) {
            PyMem_Free(plain);
            Py_RETURN_NONE;
        }
        if (known < FIRST_LONGER || known >= LAST_LONGER) {
            plain[size++] = known;
            continue;
        }
        Py_ssize_t number = known - FIRST_LONGER;
        PyObject *more = number < PyTuple_GET_SIZE(longer) ? PyTuple_GET_ITEM(longer, number) : NULL;
        Py_ssize_t count = more && PyUnicode_Check(more) ? PyUnicode_GET_LENGTH(more) : 0;
        for (Py_ssize_t at = 0; at < count && at < LONGEST_REPLACED; at++)
            plain[size++] = (Py_UCS2)PyUnicode_READ_CHAR(more, at);
    }
    PyObject *result = PyUnicode_FromKindAndData(PyUnicode_2BYTE_KIND, plain, (Py_ssize_t)size);
    PyMem_Free(plain);
    return result;
}
