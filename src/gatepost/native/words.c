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

/* A letter that had an accent has its high bit set: it is a letter, and equal to no other. */
static int is_letter_or_digit(unsigned char c)
{
    return c >= 0x80 || is_word_character(c);
}

/* The text by a table that has a byte for each character, 0 for one that it does not know; NULL with no error where
   there is such a character. */
static unsigned char *replace_characters(PyObject *text, size_t length, const Py_buffer *table)
{
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
        /* Pictographs stand between words, and so does what tells how they are drawn. */
        plain[i] = c < (size_t)table->len ? by[c] : c >= 0x1F300 && c < 0x1FB00 ? 1 : c == 0xFE0F ? UNSEEN : 0;
        /* What nobody sees joins what stands around it, unless a word has ended before. */
        if (plain[i] == UNSEEN)
            plain[i] = i && (is_letter_or_digit(plain[i - 1]) || special_of(plain[i - 1]) >= SPECIAL_SIGNS) ? 0 : 1;
        if (!plain[i]) {
            PyMem_Free(plain);
            return NULL;
        }
    }
    return plain;
}

static int is_in_word(const WordArray *words, unsigned char c)
{
    return is_letter_or_digit(c) || (words->specials && special_of(c) >= SPECIAL_SIGNS);
}

/* Append the words of a piece of text: runs of letters and digits, and each of five signs. */
static int append_words(WordArray *words, Slice text)
{
    size_t at = 0;
    while (at < text.size) {
        unsigned char c = (unsigned char)text.start[at];
        if (is_in_word(words, c)) {
            size_t start = at;
            while (at < text.size && is_in_word(words, (unsigned char)text.start[at]))
                at++;
            if (append_word(words, text.start + start, at - start) < 0)
                return -1;
        } else {
            int is_sign = c == '$' || c == '%' || c == '!' || (words->specials && special_of(c) >= 0);
            if (is_sign && append_word(words, text.start + at, 1) < 0)
                return -1;
            at++;
        }
    }
    return 0;
}

static int append_line(WordArray *words, Slice line)
{
    if (!is_address(line))
        return append_words(words, line);
    size_t at = 0;
    for (Slice word; next_word(line, &at, &word);)
        if (!is_address(word) && append_words(words, word) < 0)
            return -1;
    return 0;
}

/* Append the words that the writer of a text chose; how many characters were kept, or -1. */
static Py_ssize_t append_written(WordArray *words, const char *start, size_t length)
{
    size_t count = 0, total = 0, kept = 0;
    Slice *lines = PyMem_Malloc((length / 2 + 2) * sizeof *lines);
    char *is_own = PyMem_Calloc(length / 2 + 2, 1);
    Py_ssize_t result = -1;
    if (!lines || !is_own) {
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
    result = (Py_ssize_t)(total + (kept ? kept - 1 : 0));
end:
    PyMem_Free(lines);
    PyMem_Free(is_own);
    return result;
}

/* Whether all words from `first` on are among those between `start` and it; -1 for an error. */
static int has_words(const WordArray *array, size_t start, size_t first)
{
    uint32_t mask = table_size(first - start) - 1;
    int32_t *slots = PyMem_Malloc(((size_t)mask + 1) * sizeof *slots);
    if (!slots) {
        PyErr_NoMemory();
        return -1;
    }
    memset(slots, 0xFF, ((size_t)mask + 1) * sizeof *slots);
    int is_known = 1;
    for (size_t i = start; i < array->count && is_known; i++) {
        const Word *word = &array->words[i];
        uint32_t at = word->hash & mask;
        for (; slots[at] >= 0; at = (at + 1) & mask) {
            const Word *other = &array->words[slots[at]];
            if (other->hash == word->hash && other->size == word->size
                && !memcmp(array->letters + other->start, array->letters + word->start, word->size))
                break;
        }
        if (slots[at] < 0 && i < first)
            slots[at] = (int32_t)i;
        is_known = i < first || slots[at] >= 0;
    }
    PyMem_Free(slots);
    return is_known;
}

/* Text as `append_line` and `append_written` take it: itself where it is ASCII, else a copy, which the caller frees.
   NULL with no error where it has a character that the table does not know, or may introduce quotes in French or
   Spanish: letters have no accents here. */
static const char *read_plain(PyObject *text, size_t length, const Py_buffer *table, unsigned char **copy)
{
    *copy = NULL;
    if (PyUnicode_IS_ASCII(text))
        return (const char *)PyUnicode_1BYTE_DATA(text);
    *copy = replace_characters(text, length, table);
    if (!*copy || !(contains((char *)*copy, length, "\xE5" "crit :", 7) || contains((char *)*copy, length, "escribi\xEF:", 9)))
        return (const char *)*copy;
    PyMem_Free(*copy);
    *copy = NULL;
    return NULL;
}

/* Append the words of a name or subject, at most so many; 1 where that is done, 0 where it takes more, -1 for an error. */
static int append_field(WordArray *array, PyObject *text, const Py_buffer *table, const Specials *specials, size_t most)
{
    unsigned char *copy;
    size_t length = (size_t)PyUnicode_GET_LENGTH(text), first = array->count;
    const char *plain = read_plain(text, length, table, &copy);
    if (!plain)
        return PyErr_Occurred() ? -1 : 0;
    array->specials = copy ? specials : NULL;
    int result = append_line(array, (Slice){plain, length});
    PyMem_Free(copy);
    if (array->count - first > most) {
        array->size = array->words[first + most].start;
        array->count = first + most;
    }
    return result < 0 ? -1 : 1;
}

/* Append the words of texts, of each so many characters as the ones before leave; what brings no new word is left out. 1,
   0 and -1 as above. */
static int append_texts(WordArray *array, PyObject *texts, const Py_buffer *table, const Specials *specials, Py_ssize_t room)
{
    size_t start = array->count;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(texts) && room > 0; i++) {
        PyObject *text = PyList_GET_ITEM(texts, i);
        unsigned char *copy;
        size_t first = array->count, size = array->size, length = (size_t)PyUnicode_GET_LENGTH(text);
        length = length < (size_t)room ? length : (size_t)room;
        const char *plain = read_plain(text, length, table, &copy);
        if (!plain)
            return PyErr_Occurred() ? -1 : 0;
        array->specials = copy ? specials : NULL;
        Py_ssize_t kept = append_written(array, plain, length);
        PyMem_Free(copy);
        int is_known = kept < 0 || first == start ? 0 : has_words(array, start, first);
        if (kept < 0 || is_known < 0)
            return -1;
        if (is_known) {
            array->count = first;
            array->size = size;
        }
        room -= kept;
    }
    return 1;
}

static int are_strings(PyObject *list)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++)
        if (!PyUnicode_Check(PyList_GET_ITEM(list, i)) || PyUnicode_GET_LENGTH(PyList_GET_ITEM(list, i)) > MAX_ITEMS)
            return 0;
    return 1;
}

/* What special bytes stand for, from a text that has one character for each; -1 where there are too many. */
static int take_specials(PyObject *text, Specials *specials)
{
    specials->count = (size_t)PyUnicode_GET_LENGTH(text);
    /* Each byte that may be special stands for something. */
    if (specials->count < SPECIAL_SIGNS || specials->count > MOST_SPECIALS) {
        PyErr_SetString(PyExc_ValueError, "the number of special characters is out of range");
        return -1;
    }
    for (size_t i = 0; i < MOST_SPECIALS; i++) {
        Py_UCS4 c = PyUnicode_READ_CHAR(text, (Py_ssize_t)(i < specials->count ? i : specials->count - 1));
        specials->sizes[i] = write_character(specials->letters[i], c);
    }
    return 0;
}

/* The word array of a message, from the names of senders, the subject and the texts; None where a character takes more
   than the table. */
static PyObject *WordArray_read(PyTypeObject *type, PyObject *args)
{
    PyObject *names, *subject, *texts, *special_text;
    Py_buffer table;
    Py_ssize_t most_of_name, room, most;
    if (!PyArg_ParseTuple(args, "O!UO!y*Unnn", &PyList_Type, &names, &subject, &PyList_Type, &texts, &table,
                          &special_text, &most_of_name, &room, &most))
        return NULL;
    WordArray *array = NULL;
    Specials specials;
    int is_read = -1;
    if (!are_strings(names) || !are_strings(texts) || PyUnicode_GET_LENGTH(subject) > MAX_ITEMS)
        PyErr_SetString(PyExc_TypeError, "names and texts are strings, and not too long");
    else if (most_of_name < 0 || room < 0 || room > MAX_ITEMS || most < 0)
        PyErr_SetString(PyExc_ValueError, "a number is out of range");
    else if (take_specials(special_text, &specials) == 0
             && (array = make_array(type, PyList_GET_SIZE(texts) ? (size_t)room : 0)))
        is_read = 1;
    for (Py_ssize_t i = 0; is_read == 1 && i < PyList_GET_SIZE(names); i++)
        is_read = append_field(array, PyList_GET_ITEM(names, i), &table, &specials, (size_t)most_of_name);
    if (is_read == 1) {
        array->names = array->count;
        is_read = append_field(array, subject, &table, &specials, MAX_ITEMS);
    }
    if (is_read == 1) {
        array->subject = array->count - array->names;
        is_read = append_texts(array, texts, &table, &specials, room);
    }
    PyBuffer_Release(&table);
    if (is_read != 1) {
        Py_XDECREF(array);
        return is_read < 0 ? NULL : Py_NewRef(Py_None);
    }
    array->specials = NULL;
    size_t first = array->names + array->subject;
    if (array->count - first > (size_t)most) {
        array->size = array->words[first + (size_t)most].start;
        array->count = first + (size_t)most;
    }
    return (PyObject *)array;
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
