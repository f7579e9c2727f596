/* The second reader: words as English stems by a table, and the weights of stems, of pairs of them, and of concepts, as
   `textmodel.gloss.Letters` has them. Part of `_speedups.c`. */

#define MOST_LANGUAGES 64
#define PAIR_REACH 4
#define ENGLISH_PREFIX 6

typedef struct {
    uint32_t key;
    int32_t row;
} LetterPair;

typedef struct {
    PyObject_HEAD
    Py_buffer hashes, languages, stems, pairs, weights, small;
    size_t entries, words, pair_count;
    /* The first entry of each hash, and the row of each pair. */
    int32_t *slots;
    uint32_t mask;
    LetterPair *pair_slots;
    uint32_t pair_mask;
    int english;
    PyObject *concepts;
    /* The weights of the features of an index by their numbers; `known` is 1 for those that have been looked up, and 2
       for those that weigh. */
    ConceptIndex *index;
    float *concept_weights;
    unsigned char *known;
} Letters;

static void Letters_dealloc(Letters *self)
{
    Py_buffer *views[] = {&self->hashes, &self->languages, &self->stems, &self->pairs, &self->weights, &self->small};
    for (size_t i = 0; i < sizeof views / sizeof *views; i++)
        if (views[i]->obj)
            PyBuffer_Release(views[i]);
    PyMem_Free(self->slots);
    PyMem_Free(self->pair_slots);
    PyMem_Free(self->concept_weights);
    PyMem_Free(self->known);
    Py_XDECREF(self->concepts);
    Py_XDECREF(self->index);
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static int take_buffer(PyObject *object, Py_buffer *view, Py_ssize_t item, size_t *count)
{
    if (PyObject_GetBuffer(object, view, PyBUF_C_CONTIGUOUS) < 0)
        return -1;
    *count = (size_t)(view->len / item);
    if (view->itemsize == item && *count <= MAX_ITEMS)
        return 0;
    PyErr_SetString(PyExc_ValueError, "the numbers of a reader have another size");
    return -1;
}

static uint32_t entry_hash(const Letters *self, size_t entry)
{
    return ((const uint32_t *)self->hashes.buf)[entry];
}

static int index_entries(Letters *self)
{
    uint32_t size = table_size(self->entries), pair_size = table_size(self->pair_count);
    self->slots = PyMem_Malloc(size * sizeof *self->slots);
    self->pair_slots = PyMem_Malloc(pair_size * sizeof *self->pair_slots);
    if (!self->slots || !self->pair_slots) {
        PyErr_NoMemory();
        return -1;
    }
    self->mask = size - 1;
    self->pair_mask = pair_size - 1;
    memset(self->slots, 0xFF, size * sizeof *self->slots);
    memset(self->pair_slots, 0xFF, pair_size * sizeof *self->pair_slots);
    for (size_t i = 0; i < self->entries; i++) {
        if (i && entry_hash(self, i) == entry_hash(self, i - 1))
            continue;
        uint32_t at = entry_hash(self, i) & self->mask;
        while (self->slots[at] >= 0)
            at = (at + 1) & self->mask;
        self->slots[at] = (int32_t)i;
    }
    for (size_t i = 0; i < self->pair_count; i++) {
        uint32_t key = ((const uint32_t *)self->pairs.buf)[i];
        uint32_t at = hash_key((int64_t)key) & self->pair_mask;
        while (self->pair_slots[at].row >= 0)
            at = (at + 1) & self->pair_mask;
        self->pair_slots[at] = (LetterPair){key, (int32_t)i};
    }
    return 0;
}

/* Whether every number of the table is one of a language and of a stem. */
static int is_consistent(const Letters *self)
{
    for (size_t i = 0; i < self->entries; i++)
        if (((const uint8_t *)self->languages.buf)[i] >= MOST_LANGUAGES
            || ((const uint16_t *)self->stems.buf)[i] >= self->words)
            return 0;
    return self->english >= 0 && self->english < MOST_LANGUAGES;
}

static PyObject *Letters_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(named))
{
    PyObject *hashes, *languages, *stems, *pairs, *weights, *small, *concepts;
    int english;
    if (!PyArg_ParseTuple(args, "OOOOOOiO!", &hashes, &languages, &stems, &pairs, &weights, &small, &english,
                          &PyDict_Type, &concepts))
        return NULL;
    Letters *self = (Letters *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    size_t of_languages, of_stems, of_weights;
    self->english = english;
    self->concepts = Py_NewRef(concepts);
    if (take_buffer(hashes, &self->hashes, 4, &self->entries) < 0
        || take_buffer(languages, &self->languages, 1, &of_languages) < 0
        || take_buffer(stems, &self->stems, 2, &of_stems) < 0 || take_buffer(pairs, &self->pairs, 4, &self->pair_count) < 0
        || take_buffer(weights, &self->weights, 4, &of_weights) < 0
        || take_buffer(small, &self->small, 1, &self->words) < 0)
        goto failed;
    if (of_languages != self->entries || of_stems != self->entries || of_weights != self->words + self->pair_count
        || self->words > UINT16_MAX + 1 || !is_consistent(self)) {
        PyErr_SetString(PyExc_ValueError, "the parts of a reader do not fit together");
        goto failed;
    }
    if (index_entries(self) == 0)
        return (PyObject *)self;
failed:
    Py_DECREF(self);
    return NULL;
}

/* How many bytes the first characters of a word have. */
static size_t measure_prefix(const unsigned char *word, size_t size, size_t characters)
{
    size_t at = 0, seen = 0;
    /* Bytes that go on with a character begin with the bits 10. */
    for (; at < size; at++)
        if ((word[at] & 0xC0) != 0x80 && seen++ == characters)
            break;
    return at;
}

/* How many characters of a word the table knows: two Korean syllables, six Semitic letters, seven others. */
static size_t count_known(const unsigned char *word, size_t size)
{
    if (size >= 3 && word[0] >= 0xEA && word[0] <= 0xED) {
        uint32_t code = (uint32_t)(word[0] & 15) << 12 | (uint32_t)(word[1] & 63) << 6 | (uint32_t)(word[2] & 63);
        return code >= 0xAC00 && code <= 0xD7AF ? 2 : 7;
    }
    if (size >= 2 && word[0] >= 0xD6 && word[0] <= 0xDB) {
        uint32_t code = (uint32_t)(word[0] & 31) << 6 | (uint32_t)(word[1] & 63);
        return code >= 0x590 && code <= 0x6FF ? 6 : 7;
    }
    return 7;
}

/* The first entry of a beginning, -1 where the table has none. */
static int32_t find_entry(const Letters *self, const unsigned char *word, size_t size)
{
    uint32_t hash = hash_bytes((const char *)word, size);
    for (uint32_t at = hash & self->mask; self->slots[at] >= 0; at = (at + 1) & self->mask)
        if (entry_hash(self, (size_t)self->slots[at]) == hash)
            return self->slots[at];
    return -1;
}

/* The stem of an entry or of one behind it in one language, -1 where there is none. */
static int32_t find_stem(const Letters *self, int32_t entry, int language)
{
    if (entry < 0)
        return -1;
    uint32_t hash = entry_hash(self, (size_t)entry);
    for (size_t i = (size_t)entry; i < self->entries && entry_hash(self, i) == hash; i++)
        if (((const uint8_t *)self->languages.buf)[i] == language)
            return ((const uint16_t *)self->stems.buf)[i];
    return -1;
}

/* Find what each word may mean, and return the language that knows most of them; -1 where none is known. `entries` gets
   two for each word: that of other languages, and that of English. */
static int choose_language(const Letters *self, const WordArray *array, int32_t *entries)
{
    size_t counts[MOST_LANGUAGES] = {0};
    for (size_t i = 0; i < array->count - array->names; i++) {
        const Word *word = &array->words[array->names + i];
        const unsigned char *letters = array->letters + word->start;
        int32_t *found = entries + 2 * i;
        found[0] = found[1] = -1;
        if (!word->size || (letters[0] >= '0' && letters[0] <= '9'))
            continue;
        size_t known = measure_prefix(letters, word->size, count_known(letters, word->size));
        found[0] = find_entry(self, letters, known);
        found[1] = find_entry(self, letters, measure_prefix(letters, word->size, ENGLISH_PREFIX));
        uint32_t hash = found[0] < 0 ? 0 : entry_hash(self, (size_t)found[0]);
        for (size_t at = (size_t)found[0]; found[0] >= 0 && at < self->entries && entry_hash(self, at) == hash; at++) {
            int language = ((const uint8_t *)self->languages.buf)[at];
            counts[language] += language != self->english;
        }
        counts[self->english] += find_stem(self, found[1], self->english) >= 0;
    }
    int best = self->english;
    for (int language = 0; language < MOST_LANGUAGES; language++)
        if (counts[language] > counts[best])
            best = language;
    return counts[best] ? best : -1;
}

static int32_t find_pair_row(const Letters *self, uint32_t key)
{
    for (uint32_t at = hash_key((int64_t)key) & self->pair_mask; self->pair_slots[at].row >= 0;
         at = (at + 1) & self->pair_mask)
        if (self->pair_slots[at].key == key)
            return self->pair_slots[at].row;
    return -1;
}

/* Add the stems and pairs of some words, in their order, to the rows of a message. */
static void add_stems(const Letters *self, const int32_t *entries, size_t count, int language, RowSet *rows)
{
    int32_t before[PAIR_REACH];
    size_t said = 0;
    for (size_t i = 0; i < count; i++) {
        int32_t stem = find_stem(self, entries[2 * i + (language == self->english)], language);
        if (stem < 0)
            continue;
        add_row(rows, stem);
        if (((const unsigned char *)self->small.buf)[stem])
            continue;
        for (size_t back = 0; back < PAIR_REACH && back < said; back++) {
            uint32_t other = (uint32_t)before[back], own = (uint32_t)stem;
            if (other == own)
                continue;
            int32_t pair = find_pair_row(self, other < own ? other << 16 | own : own << 16 | other);
            if (pair >= 0)
                add_row(rows, (int32_t)self->words + pair);
        }
        before[said++ % PAIR_REACH] = stem;
    }
}

static int take_features(Letters *self, ConceptIndex *index)
{
    if (self->index == index)
        return 0;
    size_t count = (size_t)index->counts.concepts * index->counts.concepts;
    float *weights = PyMem_Calloc(count + 1, sizeof *weights);
    unsigned char *known = PyMem_Calloc(count + 1, 1);
    if (!weights || !known) {
        PyMem_Free(weights);
        PyMem_Free(known);
        PyErr_NoMemory();
        return -1;
    }
    PyMem_Free(self->concept_weights);
    PyMem_Free(self->known);
    self->concept_weights = weights;
    self->known = known;
    ConceptIndex *before = self->index;
    self->index = (ConceptIndex *)Py_NewRef(index);
    Py_XDECREF(before);
    return 0;
}

/* The weight of a feature; how often it counts, 0 or 1, or -1 for an error. */
static int weigh_concept(Letters *self, uint32_t feature, double *weight)
{
    if (!self->known[feature]) {
        PyObject *name = name_feature(self->index, feature);
        PyObject *number = name ? PyDict_GetItemWithError(self->concepts, name) : NULL;
        if (!name || (!number && PyErr_Occurred()))
            return -1;
        double value = number ? PyFloat_AsDouble(number) : 0.0;
        if (number && value == -1.0 && PyErr_Occurred())
            return -1;
        self->concept_weights[feature] = (float)value;
        self->known[feature] = number ? 2 : 1;
    }
    *weight += (double)self->concept_weights[feature];
    return self->known[feature] == 2;
}

static PyObject *Letters_read(Letters *self, PyObject *args)
{
    PyObject *array, *index;
    int most, near, beside;
    if (!PyArg_ParseTuple(args, "OOiii", &array, &index, &most, &near, &beside))
        return NULL;
    if (!is_word_array(array) || !is_concept_index(index)) {
        PyErr_SetString(PyExc_TypeError, "words and index must be a WordArray and a ConceptIndex");
        return NULL;
    }
    const WordArray *words = (const WordArray *)array;
    size_t subject = words->subject, count = words->count - words->names;
    if (words->count > MAX_ITEMS || most < 0 || most > MOST_TERMS || near < 0 || beside < 0 || beside > MOST_BESIDE) {
        PyErr_SetString(PyExc_ValueError, "a number is out of range");
        return NULL;
    }
    if (take_features(self, (ConceptIndex *)index) < 0)
        return NULL;
    size_t room = count * (PAIR_REACH + 1) + 1;
    int32_t *entries = PyMem_Malloc((2 * count + 1) * sizeof *entries);
    uint32_t *features = PyMem_Malloc(((size_t)most * ((size_t)beside + 1) + 1) * sizeof *features);
    RowSet rows = {PyMem_Malloc((size_t)table_size(room) * 4), 0, PyMem_Malloc(room * 4), 0};
    PyObject *result = NULL;
    double total = 0.0, of_concepts = 0.0;
    Py_ssize_t noted = 0, meant = -1;
    if (!entries || !features || !rows.slots || !rows.order)
        PyErr_NoMemory();
    else
        meant = list_feature_numbers((ConceptIndex *)index, words, most, near, beside, features);
    for (Py_ssize_t i = 0; i < meant; i++) {
        int counts = weigh_concept(self, features[i], &of_concepts);
        if (counts < 0)
            meant = -1;
        noted += counts;
    }
    if (meant >= 0) {
        clear_set(&rows, room);
        int language = choose_language(self, words, entries);
        if (language >= 0) {
            add_stems(self, entries, subject, language, &rows);
            add_stems(self, entries + 2 * subject, count - subject, language, &rows);
        }
        for (size_t i = 0; i < rows.count; i++)
            total += (double)((const float *)self->weights.buf)[rows.order[i]];
        result = Py_BuildValue("(ndnd)", (Py_ssize_t)rows.count, total, noted, of_concepts);
    }
    PyMem_Free(entries);
    PyMem_Free(features);
    PyMem_Free(rows.slots);
    PyMem_Free(rows.order);
    return result;
}
