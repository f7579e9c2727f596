/* Rows of the text model: words and pairs, and the sums of their weights. Part of `_speedups.c`. */

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
    /* The rows of features of concepts, each looked up when it is first found (-2 before), and the index that they
       belong to. */
    ConceptIndex *concepts;
    int32_t *concept_rows;
} RowTable;

static uint32_t hash_key(int64_t key)
{
    uint64_t hash = (uint64_t)key * 0x9E3779B97F4A7C15u;
    return (uint32_t)(hash >> 32);
}

static int32_t find_hashed(const RowTable *table, const char *word, size_t size, uint32_t hash)
{
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

static int32_t find_word(const RowTable *table, const char *word, size_t size)
{
    return find_hashed(table, word, size, hash_bytes(word, size));
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
    PyMem_Free(self->concept_rows);
    Py_XDECREF(self->concepts);
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

#define LONGEST_FORM 64

/* What an unknown word in ASCII may stand for, as `normalise_word` says: a number by its length, `v1agra` with letters,
   after the prefix of a subject or name. The size of the form, 0 for none, -1 where `normalise_word` has to be asked. */
static int guess_form(const char *word, size_t size, char form[LONGEST_FORM])
{
    static const char leet[] = "oi2eas6tbg";
    if (size > LONGEST_FORM)
        return -1;
    size_t at = 0, digits = 0, letters = 0;
    if (size >= 2 && word[1] == ':') {
        if (word[0] == 'c')
            return 0;
        at = word[0] == 's' || word[0] == 'f' ? 2 : 0;
    }
    if (at == size)
        return 0;
    memcpy(form, word, at);
    for (size_t i = at; i < size; i++) {
        unsigned char c = (unsigned char)word[i];
        if (c >= 0x80)
            return -1;
        int is_digit = c >= '0' && c <= '9';
        digits += (size_t)is_digit;
        letters += (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        form[i] = is_digit ? leet[c - '0'] : (char)c;
    }
    if (digits == size - at) {
        size_t shown = digits < 9 ? digits : 9;
        memset(form + at, '0', shown);
        return (int)(at + shown);
    }
    return letters == size - at || (word[at] >= '0' && word[at] <= '9') ? 0 : (int)size;
}

/* The row of what an unknown word may stand for; -1 for none, -2 for an error. `normalise` says that of words that are
   not ASCII; `word` is the word as an object, or NULL where nobody has made one. */
static int32_t look_up_form(const RowTable *table, const char *bytes, size_t size, PyObject *word, PyObject *normalise)
{
    char guessed[LONGEST_FORM];
    int length = guess_form(bytes, size, guessed);
    if (length >= 0)
        return length ? find_word(table, guessed, (size_t)length) : -1;
    PyObject *given = word ? Py_NewRef(word) : PyUnicode_DecodeUTF8(bytes, (Py_ssize_t)size, "surrogatepass");
    PyObject *form = given ? PyObject_CallOneArg(normalise, given) : NULL;
    Py_XDECREF(given);
    if (!form)
        return -2;
    Py_ssize_t found;
    bytes = PyUnicode_AsUTF8AndSize(form, &found);
    int32_t row = !bytes ? -2 : found ? find_word(table, bytes, (size_t)found) : -1;
    Py_DECREF(form);
    return row;
}

/* The row of a word, or of what it may stand for; -1 for none, -2 for an error. */
static int32_t look_up(const RowTable *table, PyObject *word, PyObject *normalise)
{
    Py_ssize_t size;
    const char *bytes = PyUnicode_AsUTF8AndSize(word, &size);
    if (!bytes)
        return -2;
    int32_t row = find_word(table, bytes, (size_t)size);
    return row >= 0 || !normalise || !size ? row : look_up_form(table, bytes, (size_t)size, word, normalise);
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

static PyObject *sum_windows(const RowTable *table, Work *work, size_t length, size_t window)
{
    size_t count = length < window * 3 / 2 ? 0 : (length * 2 + window) / (window * 2);
    /* Python rounds a half to the even number. */
    if (count && (length * 2 + window) % (window * 2) == 0 && count % 2)
        count--;
    PyObject *found = PyTuple_New((Py_ssize_t)count);
    for (size_t part = 0; found && part < count; part++) {
        size_t start = length * part / count, end = length * (part + 1) / count;
        clear_set(&work->set, (end - start) * 2);
        for (size_t i = start; i < end; i++)
            add_row(&work->set, work->rows[i]);
        for (size_t i = start; i + 1 < end; i++)
            add_row(&work->set, work->pairs[i]);
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

static int make_work(Work *work, size_t length, size_t others, size_t noted)
{
    size_t most = length * 2 + others + noted + 16;
    *work = (Work){
        PyMem_Malloc((length + 1) * 4), PyMem_Malloc((length + 1) * 4), PyMem_Malloc((others + 1) * 4),
        PyMem_Malloc((noted + 1) * 4),
        {PyMem_Malloc((size_t)table_size(most) * 4), 0, PyMem_Malloc(most * 4), 0},
    };
    if (work->rows && work->pairs && work->rest && work->marks && work->set.slots && work->set.order)
        return 0;
    PyErr_NoMemory();
    return -1;
}

/* The rows of text and marks, each once, their sums, and number and sum of the rows of each window, from the row of each
   word, of the rest and of each mark. */
static PyObject *sum_rows(const RowTable *self, Work *work, size_t length, size_t others, size_t noted, size_t window)
{
    int64_t base = (int64_t)self->words + 1;
    for (size_t i = 0; i + 1 < length; i++)
        __builtin_prefetch(&self->pairs[hash_key(work->rows[i] * base + work->rows[i + 1]) & self->pair_mask]);
    for (size_t i = 0; i + 1 < length; i++) {
        int32_t first = work->rows[i], second = work->rows[i + 1];
        work->pairs[i] = first < 0 || second < 0 ? -1 : find_pair(self, first * base + second);
    }
    double sums[3], mark_sums[3];
    clear_set(&work->set, noted);
    for (size_t i = 0; i < noted; i++)
        add_row(&work->set, work->marks[i]);
    sum_weights(self, &work->set, mark_sums);
    PyObject *mark_rows = rows_as_bytes(&work->set), *windows = sum_windows(self, work, length, window);
    clear_set(&work->set, length * 2 + others);
    for (size_t i = 0; i < length; i++)
        add_row(&work->set, work->rows[i]);
    for (size_t i = 0; i + 1 < length; i++)
        add_row(&work->set, work->pairs[i]);
    for (size_t i = 0; i < others; i++)
        add_row(&work->set, work->rest[i]);
    sum_weights(self, &work->set, sums);
    PyObject *text_rows = rows_as_bytes(&work->set), *result = NULL;
    if (windows && text_rows && mark_rows)
        result = Py_BuildValue("(OO(ddd)(ddd)O)", text_rows, mark_rows, sums[0], sums[1], sums[2], mark_sums[0],
                               mark_sums[1], mark_sums[2], windows);
    Py_XDECREF(windows);
    Py_XDECREF(text_rows);
    Py_XDECREF(mark_rows);
    return result;
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
    if (length > MAX_ITEMS || others > MAX_ITEMS || noted > MAX_ITEMS || window < 2 || window > MAX_ITEMS) {
        PyErr_SetString(PyExc_ValueError, "too many words");
        return NULL;
    }
    Work work;
    PyObject *result = NULL;
    if (make_work(&work, length, others, noted) == 0 && fill_rows(self, text, length, normalise, work.rows) == 0
        && fill_rows(self, rest, others, normalise, work.rest) == 0
        && fill_rows(self, marks, noted, NULL, work.marks) == 0)
        result = sum_rows(self, &work, length, others, noted, (size_t)window);
    free_work(&work);
    return result;
}

/* ---------------------------------------------------------------- the rows of a word array */

/* The row of each word of an array from `first` on. */
static int read_rows(const RowTable *table, const WordArray *array, size_t first, size_t count, PyObject *normalise,
                     int32_t *rows)
{
    const Word *words = array->words + first;
    const char *letters = (const char *)array->letters;
    for (size_t i = 0; i < count; i++)
        __builtin_prefetch(&table->slots[words[i].hash & table->mask]);
    for (size_t i = 0; i < count; i++) {
        rows[i] = table->slots[words[i].hash & table->mask].row;
        if (rows[i] >= 0)
            __builtin_prefetch(&table->offsets[rows[i]]);
    }
    for (size_t i = 0; i < count; i++)
        if (rows[i] >= 0) {
            __builtin_prefetch(table->letters + table->offsets[rows[i]]);
            __builtin_prefetch((const float *)table->weights.buf + (size_t)rows[i] * 3);
        }
    for (size_t i = 0; i < count; i++) {
        const char *word = letters + words[i].start;
        rows[i] = find_hashed(table, word, words[i].size, words[i].hash);
        /* What consists of ASCII letters stands for nothing else. */
        if (rows[i] < 0 && words[i].sort != ASCII_LETTERS && words[i].size)
            rows[i] = look_up_form(table, word, words[i].size, NULL, normalise);
        if (rows[i] == -2)
            return -1;
    }
    return 0;
}

/* The same with `s:` or `f:` before each word. */
static int read_prefixed(const RowTable *table, const WordArray *array, size_t first, size_t count, char prefix,
                         PyObject *normalise, int32_t *rows)
{
    size_t longest = 0;
    for (size_t i = 0; i < count; i++)
        longest = array->words[first + i].size > longest ? array->words[first + i].size : longest;
    char *word = PyMem_Malloc(longest + 2);
    if (!word) {
        PyErr_NoMemory();
        return -1;
    }
    word[0] = prefix;
    word[1] = ':';
    int is_read = 1;
    for (size_t i = 0; is_read && i < count; i++) {
        const Word *each = &array->words[first + i];
        memcpy(word + 2, array->letters + each->start, each->size);
        rows[i] = find_word(table, word, each->size + 2);
        if (rows[i] < 0 && each->sort != ASCII_LETTERS)
            rows[i] = look_up_form(table, word, each->size + 2, NULL, normalise);
        is_read = rows[i] != -2;
    }
    PyMem_Free(word);
    return is_read ? 0 : -1;
}

/* Have room for the rows of the features of an index; another index than before begins anew. */
static int take_concept_index(RowTable *self, ConceptIndex *index)
{
    if (self->concepts == index)
        return 0;
    size_t count = (size_t)index->counts.concepts * index->counts.concepts;
    int32_t *rows = PyMem_Malloc((count + 1) * sizeof *rows);
    if (!rows) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; i < count; i++)
        rows[i] = -2;
    PyMem_Free(self->concept_rows);
    self->concept_rows = rows;
    ConceptIndex *before = self->concepts;
    self->concepts = (ConceptIndex *)Py_NewRef(index);
    Py_XDECREF(before);
    return 0;
}

/* The rows of the features of concepts; how many there are, or -1. */
static Py_ssize_t read_concepts(RowTable *self, const uint32_t *features, size_t count, int32_t *rows)
{
    for (size_t i = 0; i < count; i++) {
        int32_t *known = &self->concept_rows[features[i]];
        if (*known == -2) {
            PyObject *name = name_feature(self->concepts, features[i]);
            Py_ssize_t size;
            const char *bytes = name ? PyUnicode_AsUTF8AndSize(name, &size) : NULL;
            if (!bytes)
                return -1;
            *known = find_word(self, bytes, (size_t)size);
        }
        rows[i] = *known;
    }
    return (Py_ssize_t)count;
}

static PyObject *RowTable_read(RowTable *self, PyObject *args)
{
    PyObject *array, *marks, *normalise, *index;
    Py_ssize_t window;
    int most, near, beside;
    if (!PyArg_ParseTuple(args, "OO!OOniii", &array, &PyList_Type, &marks, &normalise, &index, &window, &most, &near,
                          &beside))
        return NULL;
    if (!is_word_array(array) || !is_concept_index(index)) {
        PyErr_SetString(PyExc_TypeError, "words and index must be a WordArray and a ConceptIndex");
        return NULL;
    }
    const WordArray *words = (const WordArray *)array;
    size_t names = words->names, subject = words->subject, length = words->count - names - subject;
    size_t noted = (size_t)PyList_GET_SIZE(marks);
    if (words->count > MAX_ITEMS || noted > MAX_ITEMS || window < 2 || window > MAX_ITEMS || most < 0
        || most > MOST_TERMS || near < 0 || beside < 0 || beside > MOST_BESIDE) {
        PyErr_SetString(PyExc_ValueError, "a number is out of range");
        return NULL;
    }
    if (take_concept_index(self, (ConceptIndex *)index) < 0)
        return NULL;
    uint32_t *features = PyMem_Malloc(((size_t)most * ((size_t)beside + 1) + 1) * sizeof *features);
    if (!features)
        return PyErr_NoMemory();
    Py_ssize_t meant = list_feature_numbers((ConceptIndex *)index, words, most, near, beside, features);
    size_t named = (size_t)(meant < 0 ? 0 : meant), others = subject + names + named;
    Work work = {0};
    PyObject *result = NULL;
    if (meant >= 0 && make_work(&work, length, others, noted) == 0
        && read_rows(self, words, names + subject, length, normalise, work.rows) == 0
        && read_prefixed(self, words, names, subject, 's', normalise, work.rest) == 0
        && read_prefixed(self, words, 0, names, 'f', normalise, work.rest + subject) == 0
        && read_concepts(self, features, named, work.rest + subject + names) >= 0
        && fill_rows(self, marks, noted, NULL, work.marks) == 0)
        result = sum_rows(self, &work, length, others, noted, (size_t)window);
    PyMem_Free(features);
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
