/* Native twins of the hottest functions of an analysis.

Each function here does what a Python function of the same name does (`near_duplicates.smallest_hashes`,
`textmodel.model.RowTable`, `checks.phrasebook.Phrasebook`, `mail.headers.split_fields`), and tests hold the two equal.
Nothing here keeps state between two messages (but names of header fields, see `field_names`), calls the system, or
reads beyond the length that an object states. All integers that come from a message are bounded before they are used
as a size. */

#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ITEMS (1 << 24)

typedef struct {
    const char *start;
    size_t size;
} Slice;

/* ---------------------------------------------------------------- near-duplicate signatures */

static uint32_t crc_table[256];

static void fill_crc_table(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t value = byte;
        for (int bit = 0; bit < 8; bit++)
            value = (value >> 1) ^ (0xEDB88320u & (0u - (value & 1u)));
        crc_table[byte] = value;
    }
}

/* CRC-32 as zlib computes it (RFC 1952 section 8). */
static uint32_t crc32_of(const unsigned char *bytes, size_t size)
{
    uint32_t value = 0xFFFFFFFFu;
    for (size_t i = 0; i < size; i++)
        value = crc_table[(value ^ bytes[i]) & 0xFF] ^ (value >> 8);
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

/* What str.isalpha says. */
static int is_alpha(PyObject *word)
{
    Py_ssize_t length = PyUnicode_GET_LENGTH(word);
    int kind = PyUnicode_KIND(word);
    const void *data = PyUnicode_DATA(word);
    for (Py_ssize_t i = 0; i < length; i++)
        if (!Py_UNICODE_ISALPHA(PyUnicode_READ(kind, data, i)))
            return 0;
    return length > 0;
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
    unsigned char *text = PyMem_Malloc(total + 1);
    size_t *starts = PyMem_Malloc(((size_t)length + 1) * sizeof *starts);
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
        starts[++kept_words] = at;
    }
    uint32_t smallest[MAX_SMALLEST + 1];
    size_t kept = 0;
    for (Py_ssize_t i = 0; i + run <= length; i++) {
        uint32_t hash = crc32_of(text + starts[i], starts[i + run] - 1 - starts[i]);
        if (kept < (size_t)count || hash < smallest[kept - 1])
            kept = keep_smallest(smallest, kept, (size_t)count, hash);
    }
    PyMem_Free(text);
    PyMem_Free(starts);
    PyObject *found = PyList_New((Py_ssize_t)kept);
    for (size_t i = 0; found && i < kept; i++) {
        PyObject *hash = PyLong_FromUnsignedLong(smallest[i]);
        if (!hash) {
            Py_DECREF(found);
            return NULL;
        }
        PyList_SET_ITEM(found, (Py_ssize_t)i, hash);
    }
    return found;
}

/* ---------------------------------------------------------------- feature rows */

#define ROW_SPACE (1 << 16)
#define MAX_ROW_WORDS 255
#define WORD_SLOTS 512
#define LONGEST_NUMBER 9

/* What str.isdigit says. */
static int is_digit(PyObject *word)
{
    Py_ssize_t length = PyUnicode_GET_LENGTH(word);
    int kind = PyUnicode_KIND(word);
    const void *data = PyUnicode_DATA(word);
    for (Py_ssize_t i = 0; i < length; i++)
        if (!Py_UNICODE_ISDIGIT(PyUnicode_READ(kind, data, i)))
            return 0;
    return length > 0;
}

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
        uint32_t hash = crc32_of((const unsigned char *)word.start, word.size), slot = hash % WORD_SLOTS;
        while (seen[slot].start && (seen[slot].size != word.size || memcmp(seen[slot].start, word.start, word.size)))
            slot = (slot + 1) % WORD_SLOTS;
        if (seen[slot].start)
            continue;
        seen[slot] = word;
        set[(hash % ROW_SPACE) / 64] |= 1ull << (hash % 64);
        kept++;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(others); i++) {
        Slice name;
        if (!(name.start = read_item(others, i, &name.size)))
            Py_RETURN_NONE;
        uint32_t hash = crc32_of((const unsigned char *)name.start, name.size);
        set[(hash % ROW_SPACE) / 64] |= 1ull << (hash % 64);
    }
    return pack_numbers(set);
}

/* ---------------------------------------------------------------- rows of the text model */

typedef struct {
    uint32_t hash;
    int32_t row;
} WordSlot;

typedef struct {
    int64_t key;
    int32_t row;
} PairSlot;

typedef struct {
    PyObject_HEAD
    WordSlot *slots;
    uint32_t mask;
    char *letters;
    uint32_t *offsets;
    PairSlot *pairs;
    uint32_t pair_mask;
    int32_t words;
    int32_t rows;
    Py_buffer weights;
    int has_weights;
} RowTable;

static uint32_t hash_bytes(const char *bytes, size_t size)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * 16777619u;
    hash ^= hash >> 15;
    hash *= 0x2C1B3C6Du;
    return hash ^ (hash >> 13);
}

static uint32_t hash_key(int64_t key)
{
    uint64_t hash = (uint64_t)key * 0x9E3779B97F4A7C15u;
    return (uint32_t)(hash >> 32);
}

static uint32_t table_size(size_t items)
{
    uint32_t size = 16;
    while (size < items * 2)
        size <<= 1;
    return size;
}

static int32_t find_word(const RowTable *table, const char *word, size_t size)
{
    uint32_t hash = hash_bytes(word, size);
    for (uint32_t at = hash & table->mask;; at = (at + 1) & table->mask) {
        const WordSlot *slot = &table->slots[at];
        if (slot->row < 0)
            return -1;
        if (slot->hash != hash)
            continue;
        uint32_t start = table->offsets[slot->row];
        if (table->offsets[slot->row + 1] - start == size && !memcmp(table->letters + start, word, size))
            return slot->row;
    }
}

static int32_t find_pair(const RowTable *table, int64_t key)
{
    for (uint32_t at = hash_key(key) & table->pair_mask;; at = (at + 1) & table->pair_mask) {
        const PairSlot *slot = &table->pairs[at];
        if (slot->row < 0)
            return -1;
        if (slot->key == key)
            return slot->row;
    }
}

static void RowTable_dealloc(RowTable *self)
{
    PyMem_Free(self->slots);
    PyMem_Free(self->letters);
    PyMem_Free(self->offsets);
    PyMem_Free(self->pairs);
    if (self->has_weights)
        PyBuffer_Release(&self->weights);
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static int fill_words(RowTable *self, PyObject *words)
{
    Py_ssize_t count = PyTuple_GET_SIZE(words);
    size_t total = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_ssize_t size;
        if (!PyUnicode_AsUTF8AndSize(PyTuple_GET_ITEM(words, i), &size))
            return -1;
        total += (size_t)size;
    }
    uint32_t size = table_size((size_t)count);
    self->slots = PyMem_Malloc(size * sizeof *self->slots);
    self->letters = PyMem_Malloc(total + 1);
    self->offsets = PyMem_Malloc(((size_t)count + 1) * sizeof *self->offsets);
    if (!self->slots || !self->letters || !self->offsets || total > UINT32_MAX) {
        PyErr_NoMemory();
        return -1;
    }
    self->mask = size - 1;
    self->words = (int32_t)count;
    for (uint32_t i = 0; i < size; i++)
        self->slots[i].row = -1;
    uint32_t end = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_ssize_t length;
        const char *word = PyUnicode_AsUTF8AndSize(PyTuple_GET_ITEM(words, i), &length);
        memcpy(self->letters + end, word, (size_t)length);
        self->offsets[i] = end;
        end += (uint32_t)length;
        self->offsets[i + 1] = end;
        uint32_t hash = hash_bytes(word, (size_t)length);
        uint32_t at = hash & self->mask;
        /* Of a word that stands twice, the last row counts, as in a Python dictionary. */
        while (self->slots[at].row >= 0) {
            int32_t row = self->slots[at].row;
            if (self->slots[at].hash == hash && self->offsets[row + 1] - self->offsets[row] == (uint32_t)length
                && !memcmp(self->letters + self->offsets[row], word, (size_t)length))
                break;
            at = (at + 1) & self->mask;
        }
        self->slots[at].hash = hash;
        self->slots[at].row = (int32_t)i;
    }
    return 0;
}

static int fill_pairs(RowTable *self, PyObject *keys)
{
    Py_buffer view;
    if (PyObject_GetBuffer(keys, &view, PyBUF_C_CONTIGUOUS) < 0)
        return -1;
    size_t count = view.itemsize == 8 ? (size_t)(view.len / 8) : 0;
    if (view.itemsize != 8 || count > MAX_ITEMS) {
        PyBuffer_Release(&view);
        PyErr_SetString(PyExc_ValueError, "pairs must be 64-bit integers");
        return -1;
    }
    uint32_t size = table_size(count);
    self->pairs = PyMem_Malloc(size * sizeof *self->pairs);
    if (!self->pairs) {
        PyBuffer_Release(&view);
        PyErr_NoMemory();
        return -1;
    }
    self->pair_mask = size - 1;
    for (uint32_t i = 0; i < size; i++)
        self->pairs[i].row = -1;
    for (size_t i = 0; i < count; i++) {
        int64_t key;
        memcpy(&key, (const char *)view.buf + i * 8, 8);
        uint32_t at = hash_key(key) & self->pair_mask;
        while (self->pairs[at].row >= 0 && self->pairs[at].key != key)
            at = (at + 1) & self->pair_mask;
        self->pairs[at].key = key;
        self->pairs[at].row = self->words + (int32_t)i;
    }
    self->rows = self->words + (int32_t)count;
    PyBuffer_Release(&view);
    return 0;
}

static PyObject *RowTable_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
    static char *names[] = {"words", "pairs", "weights", NULL};
    PyObject *words, *pairs, *weights;
    if (!PyArg_ParseTupleAndKeywords(args, named, "O!OO", names, &PyTuple_Type, &words, &pairs, &weights))
        return NULL;
    if (PyTuple_GET_SIZE(words) > MAX_ITEMS) {
        PyErr_SetString(PyExc_ValueError, "too many words");
        return NULL;
    }
    RowTable *self = (RowTable *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    if (fill_words(self, words) < 0 || fill_pairs(self, pairs) < 0
        || PyObject_GetBuffer(weights, &self->weights, PyBUF_C_CONTIGUOUS) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    self->has_weights = 1;
    if (self->weights.itemsize != 4 || self->weights.len != (Py_ssize_t)self->rows * 12) {
        Py_DECREF(self);
        PyErr_SetString(PyExc_ValueError, "weights must be three 32-bit floats for each row");
        return NULL;
    }
    return (PyObject *)self;
}

/* The row of a word, or of what it may stand for as `normalise` says; -1 for none, -2 for an error. */
static int32_t look_up(const RowTable *table, PyObject *word, PyObject *normalise)
{
    Py_ssize_t size;
    const char *bytes = PyUnicode_AsUTF8AndSize(word, &size);
    if (!bytes)
        return -2;
    int32_t row = find_word(table, bytes, (size_t)size);
    if (row >= 0 || !normalise)
        return row;
    int is_plain = size > 0;
    for (Py_ssize_t i = 0; is_plain && i < size; i++)
        is_plain = (bytes[i] >= 'a' && bytes[i] <= 'z') || (bytes[i] >= 'A' && bytes[i] <= 'Z');
    if (is_plain)
        return -1;
    PyObject *form = PyObject_CallOneArg(normalise, word);
    if (!form)
        return -2;
    bytes = PyUnicode_AsUTF8AndSize(form, &size);
    row = !bytes ? -2 : size ? find_word(table, bytes, (size_t)size) : -1;
    Py_DECREF(form);
    return row;
}

/* A set of rows for the time of one call. */
typedef struct {
    int32_t *slots;
    uint32_t mask;
    int32_t *order;
    size_t count;
} RowSet;

static void clear_set(RowSet *set, size_t items)
{
    set->mask = table_size(items) - 1;
    memset(set->slots, 0xFF, ((size_t)set->mask + 1) * sizeof *set->slots);
    set->count = 0;
}

static void add_row(RowSet *set, int32_t row)
{
    if (row < 0)
        return;
    for (uint32_t at = ((uint32_t)row * 0x9E3779B1u >> 7) & set->mask;; at = (at + 1) & set->mask) {
        if (set->slots[at] == row)
            return;
        if (set->slots[at] < 0) {
            set->slots[at] = row;
            set->order[set->count++] = row;
            return;
        }
    }
}

static void sum_weights(const RowTable *table, const RowSet *set, double sums[3])
{
    const float *weights = table->weights.buf;
    sums[0] = sums[1] = sums[2] = 0.0;
    for (size_t i = 0; i < set->count; i++) {
        const float *row = weights + (size_t)set->order[i] * 3;
        sums[0] += row[0];
        sums[1] += row[1];
        sums[2] += row[2];
    }
}

/* Fetch what the words will be looked for in: the tables are larger than the caches near a core, and one look-up would
   wait after another. `slots` is room for a number of each word. */
static void fetch_slots(const RowTable *table, PyObject *words, size_t count, int32_t *slots)
{
    for (size_t i = 0; i < count; i++) {
        slots[i] = 0;
        /* `normalise` may have made this list shorter while another one was looked up. */
        PyObject *word = (Py_ssize_t)i < PyList_GET_SIZE(words) ? PyList_GET_ITEM(words, (Py_ssize_t)i) : NULL;
        if (!word || !PyUnicode_Check(word) || !PyUnicode_IS_COMPACT_ASCII(word))
            continue;
        uint32_t hash = hash_bytes((const char *)PyUnicode_1BYTE_DATA(word), (size_t)PyUnicode_GET_LENGTH(word));
        slots[i] = (int32_t)(hash & table->mask);
        __builtin_prefetch(&table->slots[slots[i]]);
    }
    for (size_t i = 0; i < count; i++) {
        int32_t row = table->slots[slots[i]].row;
        if (row >= 0)
            __builtin_prefetch(&table->offsets[row]);
    }
    for (size_t i = 0; i < count; i++) {
        int32_t row = table->slots[slots[i]].row;
        if (row < 0)
            continue;
        __builtin_prefetch(table->letters + table->offsets[row]);
        __builtin_prefetch((const float *)table->weights.buf + (size_t)row * 3);
    }
}

/* `normalise` is Python code that could change the list, so its size is looked at again for every word. */
static int fill_rows(const RowTable *table, PyObject *words, size_t count, PyObject *normalise, int32_t *rows)
{
    fetch_slots(table, words, count, rows);
    for (size_t i = 0; i < count; i++) {
        rows[i] = -1;
        if ((Py_ssize_t)i >= PyList_GET_SIZE(words))
            continue;
        PyObject *word = PyList_GET_ITEM(words, (Py_ssize_t)i);
        Py_INCREF(word);
        int32_t row = look_up(table, word, normalise);
        Py_DECREF(word);
        if (row == -2)
            return -1;
        rows[i] = row;
    }
    return 0;
}

/* Everything that has been worked out about one message: freed in one place. */
typedef struct {
    int32_t *rows, *pairs, *rest, *marks;
    RowSet set;
} Work;

static void free_work(Work *work)
{
    PyMem_Free(work->rows);
    PyMem_Free(work->pairs);
    PyMem_Free(work->rest);
    PyMem_Free(work->marks);
    PyMem_Free(work->set.slots);
    PyMem_Free(work->set.order);
}

static PyObject *rows_as_bytes(const RowSet *set)
{
    return PyBytes_FromStringAndSize((const char *)set->order, (Py_ssize_t)(set->count * sizeof *set->order));
}

static PyObject *sum_windows(const RowTable *table, Work *work, size_t length, size_t rest, size_t window)
{
    size_t count = length < window * 3 / 2 ? 0 : (length * 2 + window) / (window * 2);
    /* Python rounds a half to the even number. */
    if (count && (length * 2 + window) % (window * 2) == 0 && count % 2)
        count--;
    PyObject *found = PyTuple_New((Py_ssize_t)count);
    for (size_t part = 0; found && part < count; part++) {
        size_t start = length * part / count, end = length * (part + 1) / count;
        clear_set(&work->set, (end - start) * 2 + rest);
        for (size_t i = start; i < end; i++)
            add_row(&work->set, work->rows[i]);
        for (size_t i = start; i + 1 < end; i++)
            add_row(&work->set, work->pairs[i]);
        for (size_t i = 0; i < rest; i++)
            add_row(&work->set, work->rest[i]);
        double sums[3];
        sum_weights(table, &work->set, sums);
        PyObject *pair = Py_BuildValue("(nd)", (Py_ssize_t)work->set.count, sums[0]);
        if (!pair) {
            Py_DECREF(found);
            return NULL;
        }
        PyTuple_SET_ITEM(found, (Py_ssize_t)part, pair);
    }
    return found;
}

static PyObject *RowTable_find(RowTable *self, PyObject *args)
{
    PyObject *text, *rest, *marks, *normalise;
    Py_ssize_t window;
    if (!PyArg_ParseTuple(args, "O!O!O!On", &PyList_Type, &text, &PyList_Type, &rest, &PyList_Type, &marks, &normalise,
                          &window))
        return NULL;
    size_t length = (size_t)PyList_GET_SIZE(text), others = (size_t)PyList_GET_SIZE(rest);
    size_t noted = (size_t)PyList_GET_SIZE(marks);
    size_t most = length * 2 + others + noted + 16;
    if (length > MAX_ITEMS || others > MAX_ITEMS || noted > MAX_ITEMS || window < 2 || window > MAX_ITEMS) {
        PyErr_SetString(PyExc_ValueError, "too many words");
        return NULL;
    }
    Work work = {
        PyMem_Malloc((length + 1) * 4), PyMem_Malloc((length + 1) * 4), PyMem_Malloc((others + 1) * 4),
        PyMem_Malloc((noted + 1) * 4),
        {PyMem_Malloc((size_t)table_size(most) * 4), 0, PyMem_Malloc(most * 4), 0},
    };
    PyObject *result = NULL, *windows = NULL, *text_rows = NULL, *mark_rows = NULL;
    if (!work.rows || !work.pairs || !work.rest || !work.marks || !work.set.slots || !work.set.order) {
        PyErr_NoMemory();
        goto end;
    }
    if (fill_rows(self, text, length, normalise, work.rows) < 0 || fill_rows(self, rest, others, normalise, work.rest) < 0
        || fill_rows(self, marks, noted, NULL, work.marks) < 0)
        goto end;
    int64_t base = (int64_t)self->words + 1;
    for (size_t i = 0; i + 1 < length; i++)
        __builtin_prefetch(&self->pairs[hash_key(work.rows[i] * base + work.rows[i + 1]) & self->pair_mask]);
    for (size_t i = 0; i + 1 < length; i++) {
        int32_t first = work.rows[i], second = work.rows[i + 1];
        work.pairs[i] = first < 0 || second < 0 ? -1 : find_pair(self, first * base + second);
    }
    double sums[3], mark_sums[3];
    clear_set(&work.set, noted);
    for (size_t i = 0; i < noted; i++)
        add_row(&work.set, work.marks[i]);
    sum_weights(self, &work.set, mark_sums);
    mark_rows = rows_as_bytes(&work.set);
    windows = sum_windows(self, &work, length, others, (size_t)window);
    clear_set(&work.set, length * 2 + others);
    for (size_t i = 0; i < length; i++)
        add_row(&work.set, work.rows[i]);
    for (size_t i = 0; i + 1 < length; i++)
        add_row(&work.set, work.pairs[i]);
    for (size_t i = 0; i < others; i++)
        add_row(&work.set, work.rest[i]);
    sum_weights(self, &work.set, sums);
    text_rows = rows_as_bytes(&work.set);
    if (windows && text_rows && mark_rows)
        result = Py_BuildValue("(OO(ddd)(ddd)O)", text_rows, mark_rows, sums[0], sums[1], sums[2], mark_sums[0],
                               mark_sums[1], mark_sums[2], windows);
end:
    Py_XDECREF(windows);
    Py_XDECREF(text_rows);
    Py_XDECREF(mark_rows);
    free_work(&work);
    return result;
}

typedef struct {
    float weight;
    int32_t row;
    int is_mark;
} Heavy;

static int is_heavier(const Heavy *one, const Heavy *other)
{
    if (one->weight != other->weight)
        return one->weight > other->weight;
    return one->is_mark != other->is_mark ? other->is_mark : one->row < other->row;
}

#define MAX_HEAVY 32

/* Put the rows of a buffer among the heaviest ones; the new number of these, -1 for an error. */
static int add_heavy(const RowTable *table, const Py_buffer *rows, float scale, int is_mark, int most, Heavy *heavy,
                     int count)
{
    const float *weights = table->weights.buf;
    for (Py_ssize_t i = 0; i < rows->len / 4; i++) {
        int32_t row;
        memcpy(&row, (const char *)rows->buf + i * 4, 4);
        if (row < 0 || row >= table->rows) {
            PyErr_SetString(PyExc_ValueError, "there is no such row");
            return -1;
        }
        Heavy fresh = {weights[(size_t)row * 3] * scale, row, is_mark};
        if (fresh.weight <= 0)
            continue;
        int at = count;
        while (at > 0 && is_heavier(&fresh, &heavy[at - 1]))
            at--;
        if (at == most)
            continue;
        memmove(heavy + at + 1, heavy + at, (size_t)((count < most ? count : most - 1) - at) * sizeof *heavy);
        heavy[at] = fresh;
        count += count < most;
    }
    return count;
}

static PyObject *RowTable_heaviest(RowTable *self, PyObject *args)
{
    Py_buffer text, marks;
    float text_scale, mark_scale;
    int most;
    if (!PyArg_ParseTuple(args, "y*y*ffi", &text, &marks, &text_scale, &mark_scale, &most))
        return NULL;
    Heavy heavy[MAX_HEAVY + 1];
    PyObject *found = NULL;
    int count = 0;
    if (most < 1 || most > MAX_HEAVY)
        PyErr_SetString(PyExc_ValueError, "the number is out of range");
    else if ((count = add_heavy(self, &text, text_scale, 0, most, heavy, 0)) >= 0
             && (count = add_heavy(self, &marks, mark_scale, 1, most, heavy, count)) >= 0)
        found = PyList_New(count);
    for (int i = 0; found && i < count; i++) {
        PyObject *row = PyLong_FromLong(heavy[i].row);
        if (!row)
            Py_CLEAR(found);
        else
            PyList_SET_ITEM(found, i, row);
    }
    PyBuffer_Release(&text);
    PyBuffer_Release(&marks);
    return found;
}

/* ---------------------------------------------------------------- places of phrases */

/* One phrase at the words by which it is known. A mask has a bit for each ASCII character that may stand beside them. */
typedef struct {
    uint64_t left[2], right[2];
    int32_t next;
    uint32_t word, size;
    int32_t before, after; /* where the rest of it begins in `rests`, on either side; -1 for none */
    uint8_t skip, has_left, has_right, is_open;
} PhraseEntry;

typedef struct {
    PyObject_HEAD
    PhraseEntry *entries;
    int32_t count;
    char *letters;
    /* For each rest of a phrase: how many slots it has, and whether it ends with a word; for each slot, how many
       alternatives; for each of those, its place in `choices` and its size. */
    int32_t *rests;
    size_t rest_count, rest_room;
    unsigned char *choices;
    size_t choice_count, choice_room;
    uint64_t seen[2][1024];
    int32_t *heads[2];
    uint32_t mask;
} PhraseIndex;

#define FOREIGN 0x80

static uint32_t prefix_of(const unsigned char *text, int size)
{
    uint32_t prefix = (uint32_t)text[0] | (uint32_t)text[1] << 8 | (uint32_t)text[2] << 16;
    return size == 4 ? prefix | (uint32_t)text[3] << 24 : prefix;
}

static uint32_t hash_prefix(uint32_t prefix)
{
    return prefix * 0x9E3779B1u >> 16;
}

static int is_word_character(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z');
}

static void PhraseIndex_dealloc(PhraseIndex *self)
{
    PyMem_Free(self->entries);
    PyMem_Free(self->letters);
    PyMem_Free(self->rests);
    PyMem_Free(self->choices);
    PyMem_Free(self->heads[0]);
    PyMem_Free(self->heads[1]);
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

/* Set the bits of the ASCII characters of a string; whether there are any characters at all. */
static int fill_mask(PyObject *characters, uint64_t mask[2])
{
    Py_ssize_t length = PyUnicode_GET_LENGTH(characters);
    for (Py_ssize_t i = 0; i < length; i++) {
        Py_UCS4 c = PyUnicode_READ_CHAR(characters, i);
        if (c < 128)
            mask[c >> 6] |= (uint64_t)1 << (c & 63);
    }
    return length > 0;
}

static int add_number(PhraseIndex *self, size_t number)
{
    if (self->rest_count == self->rest_room) {
        size_t more = self->rest_room ? self->rest_room * 2 : 1024;
        int32_t *larger = more > MAX_ITEMS ? NULL : PyMem_Realloc(self->rests, more * sizeof *larger);
        if (!larger) {
            PyErr_NoMemory();
            return -1;
        }
        self->rests = larger;
        self->rest_room = more;
    }
    self->rests[self->rest_count++] = (int32_t)number;
    return 0;
}

/* Append the characters of an alternative, with one that stands for all that are not ASCII. */
static int add_choice(PhraseIndex *self, PyObject *text)
{
    if (!PyUnicode_Check(text)) {
        PyErr_SetString(PyExc_TypeError, "an alternative is a str");
        return -1;
    }
    size_t length = (size_t)PyUnicode_GET_LENGTH(text);
    if (length > MAX_ITEMS || self->choice_count + length > self->choice_room) {
        size_t more = (self->choice_room + length) * 2;
        unsigned char *larger = more > MAX_ITEMS ? NULL : PyMem_Realloc(self->choices, more);
        if (!larger) {
            PyErr_NoMemory();
            return -1;
        }
        self->choices = larger;
        self->choice_room = more;
    }
    if (add_number(self, self->choice_count) < 0 || add_number(self, length) < 0)
        return -1;
    for (size_t i = 0; i < length; i++) {
        Py_UCS4 c = PyUnicode_READ_CHAR(text, (Py_ssize_t)i);
        self->choices[self->choice_count++] = c < 128 ? (unsigned char)c : FOREIGN;
    }
    return 0;
}

/* Keep the rest of a phrase on one side: (whether it ends with a word, slot, slot, …), or nothing. */
static int add_rest(PhraseIndex *self, PyObject *rest, int32_t *place)
{
    *place = -1;
    Py_ssize_t slots = PyTuple_GET_SIZE(rest) - 1;
    if (slots < 0)
        return 0;
    *place = (int32_t)self->rest_count;
    if (add_number(self, (size_t)slots) < 0
        || add_number(self, (size_t)(PyObject_IsTrue(PyTuple_GET_ITEM(rest, 0)) > 0)) < 0)
        return -1;
    for (Py_ssize_t i = 0; i < slots; i++) {
        PyObject *slot = PyTuple_GET_ITEM(rest, i + 1);
        if (!PyTuple_Check(slot)) {
            PyErr_SetString(PyExc_TypeError, "a slot is a tuple of alternatives");
            return -1;
        }
        if (add_number(self, (size_t)PyTuple_GET_SIZE(slot)) < 0)
            return -1;
        for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(slot); j++)
            if (add_choice(self, PyTuple_GET_ITEM(slot, j)) < 0)
                return -1;
    }
    return 0;
}

static PyObject *PhraseIndex_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
    static char *names[] = {"entries", NULL};
    PyObject *entries;
    if (!PyArg_ParseTupleAndKeywords(args, named, "O!", names, &PyList_Type, &entries))
        return NULL;
    Py_ssize_t count = PyList_GET_SIZE(entries);
    if (count > MAX_ITEMS) {
        PyErr_SetString(PyExc_ValueError, "too many phrases");
        return NULL;
    }
    PhraseIndex *self = (PhraseIndex *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    uint32_t size = table_size((size_t)count);
    self->mask = size - 1;
    self->count = (int32_t)count;
    self->entries = PyMem_Calloc((size_t)count + 1, sizeof *self->entries);
    self->heads[0] = PyMem_Malloc(size * 4);
    self->heads[1] = PyMem_Malloc(size * 4);
    size_t total = 0, end = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *entry = PyList_GET_ITEM(entries, i);
        if (!PyTuple_Check(entry) || PyTuple_GET_SIZE(entry) != 7 || !PyUnicode_Check(PyTuple_GET_ITEM(entry, 0))) {
            Py_DECREF(self);
            PyErr_SetString(PyExc_TypeError, "an entry is a tuple of seven, a word first");
            return NULL;
        }
        total += (size_t)PyUnicode_GET_LENGTH(PyTuple_GET_ITEM(entry, 0));
    }
    self->letters = PyMem_Malloc(total + 1);
    if (!self->entries || !self->heads[0] || !self->heads[1] || !self->letters) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    memset(self->heads[0], 0xFF, size * 4);
    memset(self->heads[1], 0xFF, size * 4);
    /* From the last to the first, so that the phrases of one word are chained in their order. */
    for (Py_ssize_t i = count - 1; i >= 0; i--) {
        PhraseEntry *entry = &self->entries[i];
        PyObject *word, *left, *right, *before, *after;
        int skip, is_open;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(entries, i), "UiO!O!pUU", &word, &skip, &PyTuple_Type, &before,
                              &PyTuple_Type, &after, &is_open, &left, &right)
            || add_rest(self, before, &entry->before) < 0 || add_rest(self, after, &entry->after) < 0) {
            Py_DECREF(self);
            return NULL;
        }
        Py_ssize_t length = PyUnicode_GET_LENGTH(word);
        if (!PyUnicode_IS_ASCII(word) || length < 3 || skip < 0 || skip >= length || end + (size_t)length > total) {
            Py_DECREF(self);
            PyErr_SetString(PyExc_ValueError, "a word has at least three ASCII characters, and more than are skipped");
            return NULL;
        }
        memcpy(self->letters + end, PyUnicode_1BYTE_DATA(word), (size_t)length);
        entry->word = (uint32_t)end;
        entry->size = (uint32_t)length;
        end += (size_t)length;
        entry->skip = (uint8_t)(skip > 255 ? 255 : skip);
        entry->is_open = (uint8_t)is_open;
        entry->has_left = (uint8_t)fill_mask(left, entry->left);
        entry->has_right = (uint8_t)fill_mask(right, entry->right);
        int is_long = length > 3;
        uint32_t hash = hash_prefix(prefix_of((unsigned char *)self->letters + entry->word, 3 + is_long));
        self->seen[is_long][hash >> 6] |= (uint64_t)1 << (hash & 63);
        int32_t *head = &self->heads[is_long][hash & self->mask];
        entry->next = *head;
        *head = (int32_t)i;
    }
    return (PyObject *)self;
}

/* Whether the character at a place may be one of the mask: 1 for yes, 0 for no. A foreign one may be. */
static int may_be(const unsigned char *text, size_t length, size_t at, const uint64_t mask[2])
{
    if (at >= length)
        return 0;
    unsigned char c = text[at];
    return c == FOREIGN || (mask[c >> 6] >> (c & 63) & 1);
}

/* Whether a cut at this place goes through a word: 1 for yes, 0 for no, 2 where a foreign character decides. */
static int cuts_word(const unsigned char *text, size_t length, size_t at)
{
    if (at == 0 || at >= length)
        return 0;
    unsigned char left = text[at - 1], right = text[at];
    if (left == FOREIGN)
        return right == FOREIGN || is_word_character(right) ? 2 : 0;
    if (right == FOREIGN)
        return is_word_character(left) ? 2 : 0;
    return is_word_character(left) && is_word_character(right);
}

#define MOST_STEPS 20000
#define LONGEST_ENDING_OF_WORD 20

/* One side of a place, read away from it. `is_unsure` where a foreign character decides. */
typedef struct {
    const unsigned char *text;
    size_t length, origin;
    int is_backward, is_unsure, steps;
} Side;

/* The character so many steps away; -1 past the end of the text. */
static int step_to(const Side *side, Py_ssize_t step)
{
    Py_ssize_t at = side->is_backward ? (Py_ssize_t)side->origin - 1 - step : (Py_ssize_t)side->origin + step;
    return at < 0 || at >= (Py_ssize_t)side->length ? -1 : side->text[at];
}

/* What `\w` says: 1, 0, or 2 for a foreign character. */
static int is_word_at(const Side *side, Py_ssize_t step)
{
    int c = step_to(side, step);
    return c < 0 ? 0 : c == FOREIGN ? 2 : is_word_character((unsigned char)c) || c == '_';
}

static Py_ssize_t match_slots(const PhraseIndex *self, const int32_t *slot, int32_t slots, int is_whole, Side *side,
                              Py_ssize_t step);

/* Match the rest of one alternative, then the slots after it; the step after the last one, -1 for none. */
static Py_ssize_t match_choice(const PhraseIndex *self, const unsigned char *choice, int32_t size, const int32_t *slot,
                               int32_t slots, int is_whole, Side *side, Py_ssize_t step)
{
    for (int32_t i = 0; i < size; i++) {
        if (choice[i] == '*') {
            Py_ssize_t most = 0;
            while (most < LONGEST_ENDING_OF_WORD && is_word_at(side, step + most) == 1)
                most++;
            side->is_unsure |= most < LONGEST_ENDING_OF_WORD && is_word_at(side, step + most) == 2;
            for (; most >= 0 && !side->is_unsure; most--) {
                Py_ssize_t end = match_choice(self, choice + i + 1, size - i - 1, slot, slots, is_whole, side, step + most);
                if (end >= 0)
                    return end;
            }
            return -1;
        }
        if (step_to(side, step) != choice[i])
            return -1;
        side->is_unsure |= choice[i] == FOREIGN;
        step++;
    }
    return side->is_unsure ? -1 : match_slots(self, slot, slots, is_whole, side, step);
}

/* Match slots one after another, as the regular expression of the phrase does: longer alternatives first. */
static Py_ssize_t match_slots(const PhraseIndex *self, const int32_t *slot, int32_t slots, int is_whole, Side *side,
                              Py_ssize_t step)
{
    if (++side->steps > MOST_STEPS) {
        side->is_unsure = 1;
        return -1;
    }
    if (!slots) {
        int inside = is_whole ? is_word_at(side, step - 1) : 0, outside = inside ? is_word_at(side, step) : 0;
        side->is_unsure |= inside && outside && (inside == 2 || outside == 2);
        return side->is_unsure || (inside && outside) ? -1 : step;
    }
    const int32_t *next = slot + 1 + 2 * slot[0];
    for (int32_t i = 0; i < slot[0] && !side->is_unsure; i++) {
        const int32_t *choice = slot + 1 + 2 * i;
        Py_ssize_t end = match_choice(self, self->choices + choice[0], choice[1], next, slots - 1, is_whole, side, step);
        if (end >= 0)
            return end;
    }
    return -1;
}

/* Match the rest of a phrase on one side of a place: 0 not there, 1 there (`steps` is set), 2 Python must compare. */
static int match_rest(const PhraseIndex *self, int32_t rest, Side side, size_t *steps)
{
    const int32_t *slots = self->rests + rest;
    Py_ssize_t end = match_slots(self, slots + 2, slots[0], slots[1], &side, 0);
    *steps = end < 0 ? 0 : (size_t)end;
    return side.is_unsure ? 2 : end >= 0;
}

/* What is known of an entry at a place: 0 not there, 1 there (`start` and `end` are set), 2 the rest must be compared. */
static int judge_place(const PhraseIndex *self, const PhraseEntry *entry, const unsigned char *text, size_t length,
                       size_t *start, size_t *end)
{
    if (entry->has_right && !may_be(text, length, *end, entry->right))
        return 0;
    size_t first = *start, stop = *end, steps;
    if (entry->before >= 0) {
        if (entry->has_left && (first == 0 || !may_be(text, length, first - 1, entry->left)))
            return 0;
        int known = match_rest(self, entry->before, (Side){text, length, first, 1, 0, 0}, &steps);
        if (known != 1)
            return known;
        first -= steps;
    } else {
        int cut = cuts_word(text, length, first);
        if (cut)
            return cut == 1 ? 0 : 2;
    }
    if (entry->is_open) {
        while (stop < length && is_word_character(text[stop]))
            stop++;
        if (stop < length && text[stop] == FOREIGN)
            return 2;
    }
    if (entry->after >= 0) {
        int known = match_rest(self, entry->after, (Side){text, length, stop, 0, 0, 0}, &steps);
        if (known != 1)
            return known;
        stop += steps;
    } else {
        int cut = cuts_word(text, length, stop);
        if (cut)
            return cut == 1 ? 0 : 2;
    }
    *start = first;
    *end = stop;
    return 1;
}

typedef struct {
    size_t end, start, first, stop;
    int32_t entry;
    int is_sure;
} Found;

static int compare_found(const void *one, const void *other)
{
    const Found *a = one, *b = other;
    if (a->end != b->end)
        return a->end < b->end ? -1 : 1;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    return a->entry < b->entry ? -1 : a->entry > b->entry;
}

/* The places found so far. */
typedef struct {
    Found *items;
    size_t count, room;
} FoundList;

/* Append what stands at one place whose first characters have this hash; -1 where memory ran out. */
static int look_at(const PhraseIndex *self, const unsigned char *text, size_t length, size_t at, int is_long,
                   uint32_t hash, FoundList *found)
{
    for (int32_t i = self->heads[is_long][hash & self->mask]; i >= 0; i = self->entries[i].next) {
        const PhraseEntry *entry = &self->entries[i];
        if (entry->size > length - at || memcmp(text + at, self->letters + entry->word, entry->size))
            continue;
        size_t end = at + entry->size, first = at + entry->skip, stop = end;
        int known = judge_place(self, entry, text, length, &first, &stop);
        if (!known)
            continue;
        if (found->count == found->room) {
            size_t more = found->room ? found->room * 2 : 64;
            Found *larger = more > MAX_ITEMS ? NULL : PyMem_Realloc(found->items, more * sizeof *found->items);
            if (!larger)
                return -1;
            found->items = larger;
            found->room = more;
        }
        found->items[found->count++] = (Found){end, at, first, stop, i, known == 1};
    }
    return 0;
}

static int is_seen(const PhraseIndex *self, int is_long, uint32_t hash)
{
    return self->seen[is_long][hash >> 6] >> (hash & 63) & 1;
}

#define BATCH 32

/* A place that begins like a phrase. */
typedef struct {
    size_t at;
    uint32_t hash;
    int is_long;
} Candidate;

/* Look at several places at once: what they are compared with is fetched for all of them before the first. */
static int look_at_all(const PhraseIndex *self, const unsigned char *text, size_t length, const Candidate *places,
                       int count, FoundList *found)
{
    for (int i = 0; i < count; i++) {
        int32_t head = self->heads[places[i].is_long][places[i].hash & self->mask];
        if (head >= 0)
            __builtin_prefetch(&self->entries[head]);
    }
    for (int i = 0; i < count; i++) {
        int32_t head = self->heads[places[i].is_long][places[i].hash & self->mask];
        if (head >= 0)
            __builtin_prefetch(self->letters + self->entries[head].word);
    }
    for (int i = 0; i < count; i++)
        if (look_at(self, text, length, places[i].at, places[i].is_long, places[i].hash, found) < 0)
            return -1;
    return 0;
}

/* Look at every place of a text; -1 where memory ran out. Few places begin like a phrase: the others cost two hashes, and
   no branch that a processor would guess wrong. */
static int search_text(const PhraseIndex *self, const unsigned char *text, size_t length, FoundList *found)
{
    Candidate places[BATCH + 2];
    int count = 0;
    for (size_t at = 0; at + 3 < length; at++) {
        uint32_t prefix = prefix_of(text + at, 4);
        uint32_t hash = hash_prefix(prefix & 0xFFFFFF);
        places[count] = (Candidate){at, hash, 0};
        count += is_seen(self, 0, hash);
        hash = hash_prefix(prefix);
        places[count] = (Candidate){at, hash, 1};
        count += is_seen(self, 1, hash);
        if (count < BATCH)
            continue;
        if (look_at_all(self, text, length, places, count, found) < 0)
            return -1;
        count = 0;
    }
    if (length >= 3) {
        uint32_t hash = hash_prefix(prefix_of(text + length - 3, 3));
        places[count] = (Candidate){length - 3, hash, 0};
        count += is_seen(self, 0, hash);
    }
    return look_at_all(self, text, length, places, count, found);
}

static PyObject *PhraseIndex_find(PhraseIndex *self, PyObject *text)
{
    if (!PyUnicode_Check(text)) {
        PyErr_SetString(PyExc_TypeError, "the text must be a str");
        return NULL;
    }
    size_t length = (size_t)PyUnicode_GET_LENGTH(text);
    unsigned char *copy = NULL;
    const unsigned char *bytes;
    if (PyUnicode_IS_ASCII(text)) {
        bytes = PyUnicode_1BYTE_DATA(text);
    } else {
        copy = PyMem_Malloc(length + 1);
        if (!copy)
            return PyErr_NoMemory();
        int kind = PyUnicode_KIND(text);
        const void *data = PyUnicode_DATA(text);
        for (size_t i = 0; i < length; i++) {
            Py_UCS4 c = PyUnicode_READ(kind, data, (Py_ssize_t)i);
            copy[i] = c < 128 ? (unsigned char)c : FOREIGN;
        }
        bytes = copy;
    }
    FoundList found = {NULL, 0, 0};
    int failed = search_text(self, bytes, length, &found);
    PyMem_Free(copy);
    if (failed) {
        PyMem_Free(found.items);
        return PyErr_NoMemory();
    }
    Py_ssize_t count = (Py_ssize_t)found.count;
    if (count > 1)
        qsort(found.items, found.count, sizeof *found.items, compare_found);
    PyObject *result = PyList_New(count);
    for (Py_ssize_t i = 0; result && i < count; i++) {
        const Found *place = &found.items[i];
        PyObject *each = Py_BuildValue("(innO)", place->entry, (Py_ssize_t)place->first, (Py_ssize_t)place->stop,
                                       place->is_sure ? Py_True : Py_False);
        if (!each) {
            Py_CLEAR(result);
            break;
        }
        PyList_SET_ITEM(result, i, each);
    }
    PyMem_Free(found.items);
    return result;
}

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

static int append_word(PyObject *words, const char *start, size_t size)
{
    PyObject *word = PyUnicode_New((Py_ssize_t)size, 127);
    if (!word)
        return -1;
    Py_UCS1 *letters = PyUnicode_1BYTE_DATA(word);
    for (size_t i = 0; i < size; i++)
        letters[i] = (Py_UCS1)(start[i] >= 'A' && start[i] <= 'Z' ? start[i] + 32 : start[i]);
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
        if (is_word_character(c)) {
            size_t start = at;
            while (at < text.size && is_word_character((unsigned char)text.start[at]))
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

static PyObject *written_words(PyObject *self, PyObject *text)
{
    (void)self;
    if (!PyUnicode_Check(text) || !PyUnicode_IS_ASCII(text)) {
        PyErr_SetString(PyExc_ValueError, "the text must be ASCII");
        return NULL;
    }
    const char *start = (const char *)PyUnicode_1BYTE_DATA(text);
    size_t length = (size_t)PyUnicode_GET_LENGTH(text), count = 0, total = 0, kept = 0;
    if (length > MAX_ITEMS) {
        PyErr_SetString(PyExc_ValueError, "the text is too long");
        return NULL;
    }
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
    return result;
}

/* ---------------------------------------------------------------- pages as lexbor writes them out */

enum { OPEN_TAG, STYLE_TAG, CLOSE_TAG, COMMENT, NOTHING };

/* A tag or comment with the text before it; `plan` is borrowed from the dictionary of plans. */
typedef struct {
    Py_ssize_t text, start, end;
    PyObject *plan;
    int kind;
} HtmlToken;

typedef struct {
    HtmlToken *items;
    size_t count, room;
} TokenList;

/* What is to be done where an element ends: `entry` is the page's own note of it, or `before` the appearance to return
to, or neither. */
typedef struct {
    PyObject *entry, *before;
    int is_block;
} OpenElement;

typedef struct {
    PyObject *source, *page, *visible, *hidden, *loose, *line_break, *decode;
    PyObject *appearance;
    int is_unseen, is_reversed;
    OpenElement *opened;
    size_t depth;
} Walk;

/* A plan is a tuple: is_special, has_end, spacing, is_read, own style or None, what `enter` takes. */
enum { IS_SPECIAL, HAS_END, SPACING, IS_READ, OWN_STYLE, PLAN_SIZE = 6 };

static int plan_flag(PyObject *plan, int which)
{
    return PyTuple_GET_ITEM(plan, which) == Py_True;
}

static int add_token(TokenList *list, HtmlToken token)
{
    if (list->count == list->room) {
        size_t more = list->room ? list->room * 2 : 256;
        HtmlToken *larger = more > MAX_ITEMS ? NULL : PyMem_Realloc(list->items, more * sizeof *larger);
        if (!larger) {
            PyErr_NoMemory();
            return -1;
        }
        list->items = larger;
        list->room = more;
    }
    list->items[list->count++] = token;
    return 0;
}

static Py_UCS4 char_at(PyObject *text, Py_ssize_t length, Py_ssize_t at)
{
    return at < length ? PyUnicode_READ_CHAR(text, at) : 0;
}

/* Where a comment that begins at `start` (after `<!--`) ends; -1 where it does not. */
static Py_ssize_t comment_end(PyObject *source, Py_ssize_t length, Py_ssize_t start)
{
    for (Py_ssize_t at = start + 2; at < length; at++) {
        at = PyUnicode_FindChar(source, '>', at, length, 1);
        if (at < 0)
            return at;
        if (PyUnicode_READ_CHAR(source, at - 1) == '-' && PyUnicode_READ_CHAR(source, at - 2) == '-')
            return at - 2;
    }
    return -1;
}

/* The plan of a start tag, made by `plan` when it is first met; borrowed. NULL with an exception for an error. */
static PyObject *find_plan(PyObject *source, Py_ssize_t start, Py_ssize_t end, PyObject *plans, PyObject *plan)
{
    PyObject *text = PyUnicode_Substring(source, start, end);
    if (!text)
        return NULL;
    PyObject *found = PyDict_GetItemWithError(plans, text);
    if (!found && !PyErr_Occurred()) {
        PyObject *made = PyObject_CallOneArg(plan, text);
        if (made && made != Py_None && (!PyTuple_Check(made) || PyTuple_GET_SIZE(made) != PLAN_SIZE)) {
            PyErr_SetString(PyExc_TypeError, "a plan is a tuple of six");
            Py_CLEAR(made);
        }
        if (made && PyDict_SetItem(plans, text, made) == 0)
            found = made;
        Py_XDECREF(made);
    }
    Py_DECREF(text);
    return found;
}

/* Split a document into tokens. 0 where that is done, 1 where it is odd and its tree must be walked, -1 for an error. */
static int split_source(PyObject *source, PyObject *plans, PyObject *plan, PyObject *style_end, TokenList *list)
{
    Py_ssize_t length = PyUnicode_GET_LENGTH(source), at = 0, depth = 0;
    while (at < length) {
        HtmlToken token = {at, 0, 0, NULL, NOTHING};
        Py_ssize_t open = PyUnicode_FindChar(source, '<', at, length, 1);
        if (open < 0) {
            token.start = token.end = length;
            return add_token(list, token) < 0 ? -1 : depth != 0;
        }
        token.start = open;
        Py_UCS4 first = char_at(source, length, open + 1);
        if (first == '!' && char_at(source, length, open + 2) == '-' && char_at(source, length, open + 3) == '-') {
            Py_ssize_t end = comment_end(source, length, open + 4);
            if (end < 0)
                return 1;
            token.kind = COMMENT;
            token.end = end;
            at = end + 3;
        } else {
            Py_ssize_t end = PyUnicode_FindChar(source, '>', open + 1, length, 1);
            if (end < 0)
                return 1;
            token.end = end;
            at = end + 1;
            if (first == '/') {
                token.kind = CLOSE_TAG;
                if (--depth < 0)
                    return 1;
            } else if (first != '!') {
                token.plan = find_plan(source, open + 1, end, plans, plan);
                if (!token.plan)
                    return -1;
                if (token.plan == Py_None)
                    return 1;
                Py_ssize_t name = end - open - 1;
                int is_style = name >= 5 && (name == 5 || char_at(source, length, open + 6) == ' ');
                for (Py_ssize_t i = 0; is_style && i < 5; i++)
                    is_style = char_at(source, length, open + 1 + i) == (Py_UCS4) "style"[i];
                token.kind = is_style ? STYLE_TAG : OPEN_TAG;
                if (is_style) {
                    Py_ssize_t close = PyUnicode_Find(source, style_end, at, length, 1);
                    if (close < 0)
                        return close == -1 ? 1 : -1;
                    at = close + PyUnicode_GET_LENGTH(style_end);
                } else if (plan_flag(token.plan, HAS_END)) {
                    depth++;
                }
            }
        }
        if (add_token(list, token) < 0)
            return -1;
    }
    return depth != 0;
}

static PyObject *name_appearance, *name_unseen, *name_reversed, *name_anchors, *name_enter, *name_leave, *name_add_text,
    *name_read_comment, *name_with_style;

static int is_true_attribute(PyObject *object, PyObject *name)
{
    PyObject *value = PyObject_GetAttr(object, name);
    int result = value ? PyObject_IsTrue(value) : -1;
    Py_XDECREF(value);
    return result;
}

/* Take over an appearance (a new reference), or an error where it is NULL. */
static int set_appearance(Walk *walk, PyObject *appearance)
{
    if (!appearance)
        return -1;
    Py_XSETREF(walk->appearance, appearance);
    walk->is_unseen = is_true_attribute(appearance, name_unseen);
    walk->is_reversed = is_true_attribute(appearance, name_reversed);
    return walk->is_unseen < 0 || walk->is_reversed < 0 ? -1 : 0;
}

static int append_spacing(Walk *walk, PyObject *spacing)
{
    return PyList_Append(walk->is_unseen ? walk->hidden : walk->visible, spacing);
}

static int walk_text(Walk *walk, Py_ssize_t start, Py_ssize_t end)
{
    PyObject *text = PyUnicode_Substring(walk->source, start, end);
    if (text && PyUnicode_FindChar(text, '&', 0, end - start, 1) >= 0)
        Py_SETREF(text, PyObject_CallOneArg(walk->decode, text));
    if (!text)
        return -1;
    int result;
    if (walk->is_unseen || walk->is_reversed) {
        PyObject *done = PyObject_CallMethodOneArg(walk->page, name_add_text, text);
        result = done ? 0 : -1;
        Py_XDECREF(done);
    } else {
        result = PyList_Append(walk->visible, text);
        Py_ssize_t length = PyUnicode_GET_LENGTH(text);
        if (!result
            && (PyUnicode_FindChar(text, '.', 0, length, 1) >= 0 || PyUnicode_FindChar(text, ':', 0, length, 1) >= 0)) {
            result = is_true_attribute(walk->page, name_anchors);
            if (!result)
                result = PyList_Append(walk->loose, text);
            else if (result > 0)
                result = 0;
        }
    }
    Py_DECREF(text);
    return result;
}

/* End an element; its references are given up. */
static int walk_end(Walk *walk, OpenElement element)
{
    int result = 0;
    if (element.entry) {
        PyObject *done = PyObject_CallMethodOneArg(walk->page, name_leave, element.entry);
        Py_DECREF(element.entry);
        Py_XDECREF(done);
        return done ? set_appearance(walk, PyObject_GetAttr(walk->page, name_appearance)) : -1;
    }
    if (element.is_block)
        result = append_spacing(walk, walk->line_break);
    if (element.before) {
        if (!result)
            result = PyObject_SetAttr(walk->page, name_appearance, element.before);
        if (!result)
            result = set_appearance(walk, Py_NewRef(element.before));
        Py_DECREF(element.before);
    }
    return result;
}

/* Begin an element; whether what is inside it is read, -1 for an error. */
static int walk_start(Walk *walk, PyObject *plan, OpenElement *element)
{
    *element = (OpenElement){NULL, NULL, 0};
    if (plan_flag(plan, IS_SPECIAL)) {
        PyObject *done = PyObject_CallMethodOneArg(walk->page, name_enter, PyTuple_GET_ITEM(plan, PLAN_SIZE - 1));
        if (!done || !PyTuple_Check(done) || PyTuple_GET_SIZE(done) != 2) {
            if (done)
                PyErr_SetString(PyExc_TypeError, "enter returns a tuple of two");
            Py_XDECREF(done);
            return -1;
        }
        if (PyTuple_GET_ITEM(done, 0) != Py_None)
            element->entry = Py_NewRef(PyTuple_GET_ITEM(done, 0));
        int is_read = PyTuple_GET_ITEM(done, 1) == Py_True;
        Py_DECREF(done);
        return set_appearance(walk, PyObject_GetAttr(walk->page, name_appearance)) < 0 ? -1 : is_read;
    }
    PyObject *own = PyTuple_GET_ITEM(plan, OWN_STYLE), *spacing = PyTuple_GET_ITEM(plan, SPACING);
    if (own != Py_None) {
        PyObject *inside = PyObject_CallMethodOneArg(walk->appearance, name_with_style, own);
        if (!inside)
            return -1;
        if (inside == walk->appearance) {
            Py_DECREF(inside);
        } else {
            element->before = Py_NewRef(walk->appearance);
            if (PyObject_SetAttr(walk->page, name_appearance, inside) < 0) {
                Py_DECREF(inside);
                return -1;
            }
            if (set_appearance(walk, inside) < 0)
                return -1;
        }
    }
    element->is_block = spacing == walk->line_break;
    if (PyUnicode_GET_LENGTH(spacing) && append_spacing(walk, spacing) < 0)
        return -1;
    return plan_flag(plan, IS_READ);
}

/* Go through the tokens; the number of nodes, -1 for an error. At most `most` nodes are read. */
static Py_ssize_t walk_tokens(Walk *walk, const TokenList *list, Py_ssize_t most)
{
    Py_ssize_t nodes = 0;
    int is_read = 1;
    for (size_t i = 0; i < list->count && nodes <= most; i++) {
        const HtmlToken *token = &list->items[i];
        if (token->text < token->start) {
            nodes++;
            if (is_read && walk_text(walk, token->text, token->start) < 0)
                return -1;
        }
        if (token->kind == CLOSE_TAG) {
            if (walk_end(walk, walk->opened[--walk->depth]) < 0)
                return -1;
            is_read = 1;
        } else if (token->kind == OPEN_TAG || token->kind == STYLE_TAG) {
            OpenElement element;
            nodes++;
            is_read = walk_start(walk, token->plan, &element);
            if (is_read < 0) {
                Py_XDECREF(element.entry);
                Py_XDECREF(element.before);
                return -1;
            }
            if (token->kind == OPEN_TAG && plan_flag(token->plan, HAS_END)) {
                walk->opened[walk->depth++] = element;
            } else {
                if (walk_end(walk, element) < 0)
                    return -1;
                is_read = 1;
            }
        } else if (token->kind == COMMENT) {
            nodes++;
            PyObject *text = PyUnicode_Substring(walk->source, token->start + 4, token->end);
            PyObject *done = text ? PyObject_CallMethodOneArg(walk->page, name_read_comment, text) : NULL;
            Py_XDECREF(text);
            Py_XDECREF(done);
            if (!done)
                return -1;
        }
    }
    return nodes;
}

static PyObject *walk_source(PyObject *self, PyObject *args)
{
    PyObject *source, *plan, *page, *visible, *hidden, *loose, *line_break, *decode;
    Py_ssize_t most;
    (void)self;
    if (!PyArg_ParseTuple(args, "UOOO!O!O!UOn", &source, &plan, &page, &PyList_Type, &visible, &PyList_Type, &hidden,
                          &PyList_Type, &loose, &line_break, &decode, &most))
        return NULL;
    PyObject *plans = PyDict_New(), *style_end = PyUnicode_FromString("</style>"), *result = NULL;
    TokenList list = {NULL, 0, 0};
    Walk walk = {source, page, visible, hidden, loose, line_break, decode, NULL, 0, 0, NULL, 0};
    int is_odd = plans && style_end ? split_source(source, plans, plan, style_end, &list) : -1;
    if (is_odd == 1) {
        result = PyLong_FromLong(-1);
    } else if (is_odd == 0) {
        walk.opened = PyMem_Malloc((list.count + 1) * sizeof *walk.opened);
        if (!walk.opened)
            PyErr_NoMemory();
        else if (set_appearance(&walk, PyObject_GetAttr(page, name_appearance)) == 0) {
            Py_ssize_t nodes = walk_tokens(&walk, &list, most);
            result = nodes < 0 ? NULL : PyLong_FromSsize_t(nodes);
        }
    }
    while (walk.depth) {
        Py_XDECREF(walk.opened[--walk.depth].entry);
        Py_XDECREF(walk.opened[walk.depth].before);
    }
    PyMem_Free(walk.opened);
    PyMem_Free(list.items);
    Py_XDECREF(walk.appearance);
    Py_XDECREF(plans);
    Py_XDECREF(style_end);
    return result;
}

static int intern_names(void)
{
    struct {
        PyObject **name;
        const char *text;
    } names[] = {
        {&name_appearance, "appearance"}, {&name_unseen, "unseen"},       {&name_reversed, "reversed"},
        {&name_anchors, "anchors"},       {&name_enter, "enter"},         {&name_leave, "leave"},
        {&name_add_text, "add_text"},     {&name_read_comment, "read_comment"}, {&name_with_style, "with_style"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!*names[i].name && !(*names[i].name = PyUnicode_InternFromString(names[i].text)))
            return -1;
    return 0;
}

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

static PyObject *find_content_field(PyObject *self, PyObject *args)
{
    PyObject *source;
    Py_ssize_t start, end;
    (void)self;
    if (!PyArg_ParseTuple(args, "Snn", &source, &start, &end))
        return NULL;
    const unsigned char *bytes = (const unsigned char *)PyBytes_AS_STRING(source);
    Py_ssize_t length = PyBytes_GET_SIZE(source), at = (start < 0 ? 0 : start) + 7;
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
            return PyLong_FromSsize_t(at - 7);
        at++;
    }
    return PyLong_FromLong(-1);
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

/* ---------------------------------------------------------------- blanks of a text */

#define BREAK 0x1E

/* Runs of blanks as one; with breaks, runs that hold one as a line end. */
static PyObject *squeeze(PyObject *self, PyObject *args)
{
    PyObject *text;
    int with_breaks;
    (void)self;
    if (!PyArg_ParseTuple(args, "Up", &text, &with_breaks))
        return NULL;
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

/* ---------------------------------------------------------------- the module */

static PyMethodDef row_table_methods[] = {
    {"find", (PyCFunction)RowTable_find, METH_VARARGS, NULL},
    {"heaviest", (PyCFunction)RowTable_heaviest, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot row_table_slots[] = {
    {Py_tp_new, RowTable_new},
    {Py_tp_dealloc, RowTable_dealloc},
    {Py_tp_methods, row_table_methods},
    {Py_tp_doc, "The words and pairs of a text model by their rows."},
    {0, NULL},
};

static PyType_Spec row_table_spec = {
    "gatepost._speedups.RowTable", sizeof(RowTable), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, row_table_slots,
};

static PyMethodDef phrase_index_methods[] = {
    {"find", (PyCFunction)PhraseIndex_find, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot phrase_index_slots[] = {
    {Py_tp_new, PhraseIndex_new},
    {Py_tp_dealloc, PhraseIndex_dealloc},
    {Py_tp_methods, phrase_index_methods},
    {Py_tp_doc, "The places of a text where phrases may stand."},
    {0, NULL},
};

static PyType_Spec phrase_index_spec = {
    "gatepost._speedups.PhraseIndex", sizeof(PhraseIndex), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    phrase_index_slots,
};

static int execute(PyObject *module)
{
    fill_crc_table();
    if (intern_names() < 0)
        return -1;
    PyType_Spec *specs[] = {&row_table_spec, &phrase_index_spec};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        PyObject *type = PyType_FromSpec(specs[i]);
        if (!type || PyModule_AddType(module, (PyTypeObject *)type) < 0) {
            Py_XDECREF(type);
            return -1;
        }
        Py_DECREF(type);
    }
    return 0;
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, execute},
    {0, NULL},
};

static PyMethodDef functions[] = {
    {"smallest_hashes", smallest_hashes, METH_VARARGS,
     "smallest_hashes(words, run, count, least): of the words of letters alone, if there are so many."},
    {"feature_row", feature_row, METH_VARARGS,
     "feature_row(words, most, others): the packed row of the first different words and of other names; or None."},
    {"written_words", written_words, METH_O,
     "written_words(text): the words of ASCII text that its writer chose, and how many characters were kept."},
    {"walk_source", walk_source, METH_VARARGS,
     "walk_source(source, plan, page, visible, hidden, loose, line_break, decode, most): the number of nodes, or -1."},
    {"split_fields", split_fields, METH_VARARGS,
     "split_fields(source, start, window, largest, most, make, decode): fields, body, and whether CR or LF is bare."},
    {"find_delimiter", find_delimiter, METH_VARARGS,
     "find_delimiter(source, at, opened, closed, prefixes, most): the place, how many were taken, and if it is one."},
    {"find_content_field", find_content_field, METH_VARARGS,
     "find_content_field(source, start, end): where `content-t` begins between two places, in any case; or -1."},
    {"squeeze", squeeze, METH_VARARGS, "squeeze(text, with_breaks): the text with runs of blanks as one."},
    {"link_words", link_words, METH_VARARGS, "link_words(text, endings): start and end of words that may hold a link."},
    {"find_segments", find_segments, METH_VARARGS,
     "find_segments(source, limit, most): start and end of lines of dashes before a content field."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "gatepost._speedups", NULL, 0, functions, module_slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__speedups(void)
{
    return PyModuleDef_Init(&definition);
}
