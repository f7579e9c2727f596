/* Near-duplicate signatures and feature rows: hashes of words. Part of `_speedups.c`. */

/* ---------------------------------------------------------------- near-duplicate signatures */

/* The first row is for one byte; the others for a byte that one, two or three more follow. */
static uint32_t crc_table[4][256];

static void fill_crc_table(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t value = byte;
        for (int bit = 0; bit < 8; bit++)
            value = (value >> 1) ^ (0xEDB88320u & (0u - (value & 1u)));
        crc_table[0][byte] = value;
    }
    for (int row = 1; row < 4; row++)
        for (int byte = 0; byte < 256; byte++)
            crc_table[row][byte] = (crc_table[row - 1][byte] >> 8) ^ crc_table[0][crc_table[row - 1][byte] & 0xFF];
}

/* CRC-32 as zlib computes it (RFC 1952 section 8). */
static uint32_t crc32_of(const unsigned char *bytes, size_t size)
{
    uint32_t value = 0xFFFFFFFFu;
    for (; size >= 4; size -= 4, bytes += 4) {
        value ^= bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
        value = crc_table[3][value & 0xFF] ^ crc_table[2][(value >> 8) & 0xFF] ^ crc_table[1][(value >> 16) & 0xFF]
            ^ crc_table[0][value >> 24];
    }
    for (size_t i = 0; i < size; i++)
        value = crc_table[0][(value ^ bytes[i]) & 0xFF] ^ (value >> 8);
    return value ^ 0xFFFFFFFFu;
}

/* Put a hash into a sorted array of the smallest ones, each once. */
static size_t keep_smallest(uint32_t *smallest, size_t kept, size_t count, uint32_t hash)
{
    size_t at = kept;
    while (at > 0 && smallest[at - 1] >= hash)
        at--;
    if (at < kept && smallest[at] == hash)
        return kept;
    if (kept == count && at == count)
        return kept;
    size_t moved = (kept == count ? count - 1 : kept) - at;
    memmove(smallest + at + 1, smallest + at, moved * sizeof *smallest);
    smallest[at] = hash;
    return kept < count ? kept + 1 : kept;
}

#define MAX_SMALLEST 64

/* The smallest hashes of the runs of words in a text, where each word begins at one of `starts`, and the last entry is
   behind the blank that follows the last word. */
static PyObject *list_smallest(const unsigned char *text, const uint32_t *starts, size_t length, size_t run, size_t count)
{
    uint32_t smallest[MAX_SMALLEST + 1];
    size_t kept = 0;
    for (size_t i = 0; i + run <= length; i++) {
        uint32_t hash = crc32_of(text + starts[i], starts[i + run] - 1 - starts[i]);
        if (kept < count || hash < smallest[kept - 1])
            kept = keep_smallest(smallest, kept, count, hash);
    }
    PyObject *found = PyList_New((Py_ssize_t)kept);
    for (size_t i = 0; found && i < kept; i++) {
        PyObject *hash = PyLong_FromUnsignedLong(smallest[i]);
        if (hash)
            PyList_SET_ITEM(found, (Py_ssize_t)i, hash);
        else
            Py_CLEAR(found);
    }
    return found;
}

/* Of the words of the body that consist of letters, if there are so many. */
static PyObject *WordArray_smallest_hashes(WordArray *self, PyObject *args)
{
    int run, count;
    Py_ssize_t least;
    if (!PyArg_ParseTuple(args, "iin", &run, &count, &least))
        return NULL;
    if (run < 1 || count < 1 || count > MAX_SMALLEST) {
        PyErr_SetString(PyExc_ValueError, "run or count is out of range");
        return NULL;
    }
    size_t first = self->names + self->subject, length = 0, size = 0;
    for (size_t i = first; i < self->count; i++)
        if (self->words[i].sort == ASCII_LETTERS || self->words[i].sort == LETTERS) {
            length++;
            size += (size_t)self->words[i].size + 1;
        }
    if ((Py_ssize_t)length < least)
        return PyList_New(0);
    unsigned char *text = PyMem_Malloc(size + 1);
    uint32_t *starts = PyMem_Malloc((length + 1) * sizeof *starts);
    PyObject *found = NULL;
    if (!text || !starts) {
        PyErr_NoMemory();
    } else {
        size_t at = 0, kept = 0;
        starts[0] = 0;
        for (size_t i = first; i < self->count; i++) {
            const Word *word = &self->words[i];
            if (word->sort != ASCII_LETTERS && word->sort != LETTERS)
                continue;
            /* With the blank that stands behind it. */
            memcpy(text + at, self->letters + word->start, (size_t)word->size + 1);
            at += (size_t)word->size + 1;
            starts[++kept] = (uint32_t)at;
        }
        found = list_smallest(text, starts, length, (size_t)run, (size_t)count);
    }
    PyMem_Free(text);
    PyMem_Free(starts);
    return found;
}

static PyObject *smallest_hashes(PyObject *self, PyObject *args)
{
    PyObject *words;
    int run, count;
    Py_ssize_t least;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!iin", &PyList_Type, &words, &run, &count, &least))
        return NULL;
    Py_ssize_t given = PyList_GET_SIZE(words), length = 0;
    if (run < 1 || count < 1 || count > MAX_SMALLEST || given > MAX_ITEMS) {
        PyErr_SetString(PyExc_ValueError, "run, count or the number of words is out of range");
        return NULL;
    }
    size_t total = 0;
    for (Py_ssize_t i = 0; i < given; i++) {
        PyObject *word = PyList_GET_ITEM(words, i);
        Py_ssize_t size;
        if (!PyUnicode_AsUTF8AndSize(word, &size))
            return NULL;
        if (is_alpha(word)) {
            total += (size_t)size + 1;
            length++;
        }
    }
    if (length < least)
        return PyList_New(0);
    if (total > MAX_BYTES) {
        PyErr_SetString(PyExc_ValueError, "the words are too long");
        return NULL;
    }
    unsigned char *text = PyMem_Malloc(total + 1);
    uint32_t *starts = PyMem_Malloc(((size_t)length + 1) * sizeof *starts);
    if (!text || !starts) {
        PyMem_Free(text);
        PyMem_Free(starts);
        return PyErr_NoMemory();
    }
    size_t at = 0;
    starts[0] = 0;
    for (Py_ssize_t i = 0, kept_words = 0; i < given; i++) {
        Py_ssize_t size;
        const char *word = PyUnicode_AsUTF8AndSize(PyList_GET_ITEM(words, i), &size);
        if (!is_alpha(PyList_GET_ITEM(words, i)))
            continue;
        memcpy(text + at, word, (size_t)size);
        at += (size_t)size;
        text[at++] = ' ';
        starts[++kept_words] = (uint32_t)at;
    }
    PyObject *found = list_smallest(text, starts, (size_t)length, (size_t)run, (size_t)count);
    PyMem_Free(text);
    PyMem_Free(starts);
    return found;
}

/* ---------------------------------------------------------------- feature rows */

#define ROW_SPACE (1 << 16)
#define MAX_ROW_WORDS 255
#define WORD_SLOTS 512
#define LONGEST_NUMBER 9

/* The bytes of one item of a list; NULL where it is no text, or text that UTF-8 does not have. */
static const char *read_item(PyObject *list, Py_ssize_t at, size_t *size)
{
    Py_ssize_t found;
    PyObject *item = PyList_GET_ITEM(list, at);
    const char *bytes = PyUnicode_Check(item) ? PyUnicode_AsUTF8AndSize(item, &found) : NULL;
    if (!bytes)
        PyErr_Clear();
    else
        *size = (size_t)found;
    return bytes;
}

/* The numbers that are set, in order, two bytes each. */
static PyObject *pack_numbers(const uint64_t *set)
{
    Py_ssize_t count = 0;
    for (size_t i = 0; i < ROW_SPACE / 64; i++)
        count += set[i] ? __builtin_popcountll(set[i]) : 0;
    PyObject *packed = PyBytes_FromStringAndSize(NULL, 2 * count);
    if (!packed)
        return NULL;
    unsigned char *out = (unsigned char *)PyBytes_AS_STRING(packed);
    for (size_t i = 0; i < ROW_SPACE / 64; i++)
        for (uint64_t rest = set[i]; rest; rest &= rest - 1) {
            size_t number = i * 64 + (size_t)__builtin_ctzll(rest);
            *out++ = (unsigned char)(number & 0xFF);
            *out++ = (unsigned char)(number >> 8);
        }
    return packed;
}

/* Set the number of a name, which may have a prefix. */
static void set_number(uint64_t *set, uint32_t hash)
{
    set[(hash % ROW_SPACE) / 64] |= 1ull << (hash % 64);
}

/* Whether a name is among those that were seen before; it is put among them. */
static int is_seen(Slice *seen, Slice name, uint32_t hash)
{
    uint32_t slot = hash % WORD_SLOTS;
    while (seen[slot].start && (seen[slot].size != name.size || memcmp(seen[slot].start, name.start, name.size)))
        slot = (slot + 1) % WORD_SLOTS;
    if (seen[slot].start)
        return 1;
    seen[slot] = name;
    return 0;
}

/* The row of a set of numbers and of the other names. None where one of these has no UTF-8. */
static PyObject *pack_with_others(uint64_t *set, PyObject *others)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(others); i++) {
        Slice name;
        if (!(name.start = read_item(others, i, &name.size)))
            Py_RETURN_NONE;
        set_number(set, crc32_of((const unsigned char *)name.start, name.size));
    }
    return pack_numbers(set);
}

/* The first `most` different words, numbers by their length, and all other names, as a packed row. None where one of
them has no UTF-8. */
static PyObject *feature_row(PyObject *self, PyObject *args)
{
    static const char zeros[] = "000000000";
    PyObject *words, *others;
    Py_ssize_t most, kept = 0;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!nO!", &PyList_Type, &words, &most, &PyList_Type, &others))
        return NULL;
    if (most < 0 || most > MAX_ROW_WORDS) {
        PyErr_SetString(PyExc_ValueError, "the number of words is out of range");
        return NULL;
    }
    uint64_t set[ROW_SPACE / 64] = {0};
    Slice seen[WORD_SLOTS] = {{NULL, 0}};
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(words) && kept < most; i++) {
        Slice word;
        if (!(word.start = read_item(words, i, &word.size)))
            Py_RETURN_NONE;
        if (is_digit(PyList_GET_ITEM(words, i))) {
            Py_ssize_t length = PyUnicode_GET_LENGTH(PyList_GET_ITEM(words, i));
            word = (Slice){zeros, (size_t)(length < LONGEST_NUMBER ? length : LONGEST_NUMBER)};
        }
        uint32_t hash = crc32_of((const unsigned char *)word.start, word.size);
        if (is_seen(seen, word, hash))
            continue;
        set_number(set, hash);
        kept++;
    }
    return pack_with_others(set, others);
}

/* CRC-32 of a name that follows two bytes of a prefix. */
static uint32_t crc32_after(const char prefix[2], const unsigned char *bytes, size_t size)
{
    uint32_t value = 0xFFFFFFFFu;
    for (int i = 0; i < 2; i++)
        value = crc_table[0][(value ^ (unsigned char)prefix[i]) & 0xFF] ^ (value >> 8);
    for (size_t i = 0; i < size; i++)
        value = crc_table[0][(value ^ bytes[i]) & 0xFF] ^ (value >> 8);
    return value ^ 0xFFFFFFFFu;
}

/* The packed row of a message: the first different words of the body, numbers by their length; the first different ones
   of subject (`s:`) and names (`f:`); and all other names. None where one of these has no UTF-8. */
static PyObject *WordArray_row(WordArray *self, PyObject *args)
{
    static const char zeros[] = "000000000";
    PyObject *others;
    Py_ssize_t most, most_rest;
    if (!PyArg_ParseTuple(args, "nnO!", &most, &most_rest, &PyList_Type, &others))
        return NULL;
    if (most < 0 || most > MAX_ROW_WORDS || most_rest < 0 || most_rest > MAX_ROW_WORDS) {
        PyErr_SetString(PyExc_ValueError, "the number of words is out of range");
        return NULL;
    }
    uint64_t set[ROW_SPACE / 64] = {0};
    Slice seen[WORD_SLOTS] = {{NULL, 0}};
    Py_ssize_t kept = 0;
    for (size_t i = self->names + self->subject; i < self->count && kept < most; i++) {
        const Word *word = &self->words[i];
        Slice name = {(const char *)self->letters + word->start, word->size};
        if (word->sort == DIGITS)
            name = (Slice){zeros, word->characters < LONGEST_NUMBER ? word->characters : LONGEST_NUMBER};
        uint32_t hash = crc32_of((const unsigned char *)name.start, name.size);
        if (is_seen(seen, name, hash))
            continue;
        set_number(set, hash);
        kept++;
    }
    kept = 0;
    for (int is_name = 0; is_name < 2; is_name++) {
        memset(seen, 0, sizeof seen);
        size_t first = is_name ? 0 : self->names, end = is_name ? self->names : self->names + self->subject;
        for (size_t i = first; i < end && kept < most_rest; i++) {
            const Word *word = &self->words[i];
            Slice name = {(const char *)self->letters + word->start, word->size};
            uint32_t hash = crc32_after(is_name ? "f:" : "s:", self->letters + word->start, word->size);
            if (is_seen(seen, name, hash))
                continue;
            set_number(set, hash);
            kept++;
        }
    }
    return pack_with_others(set, others);
}
