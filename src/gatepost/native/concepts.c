/* Concepts of a text: the longest term of the dictionaries at each word. Part of `_speedups.c`.

Terms are found as words of phrases are (`phrases.c`), by the hash of their first bytes; every term begins after a blank,
so only the beginnings of words are looked at. An index is one flat piece of bytes as well. */

typedef struct {
    int32_t next;
    uint32_t start;
    uint16_t size, concept;
    uint32_t is_open;
} Term;

/* The first bytes of an index. Then come, without gaps: a bit for each hash of first bytes that there is; terms; the
   first term of each hash; letters. */
typedef struct {
    uint32_t terms, heads, letters, concepts;
} TermCounts;

typedef struct {
    PyObject_HEAD
    PyObject *packed, *names;
    TermCounts counts;
    const uint64_t *seen;
    const Term *terms;
    const int32_t *heads;
    const unsigned char *letters;
    /* The names of features, one for each two concepts, made when they are first found. */
    PyObject **features;
} ConceptIndex;

#define LEVELS 3
#define BATCH 32

static const size_t TERM_PREFIXES[LEVELS] = {2, 4, 8};

static int level_of_term(size_t size)
{
    return size >= TERM_PREFIXES[2] ? 2 : size >= TERM_PREFIXES[1];
}

static void ConceptIndex_dealloc(ConceptIndex *self)
{
    for (size_t i = 0; self->features && i < (size_t)self->counts.concepts * self->counts.concepts; i++)
        Py_XDECREF(self->features[i]);
    PyMem_Free(self->features);
    Py_XDECREF(self->packed);
    Py_XDECREF(self->names);
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static int is_concept_index(PyObject *object)
{
    return Py_TYPE(object)->tp_dealloc == (destructor)ConceptIndex_dealloc;
}

static int add_term(Growing *terms, Growing *letters, PyObject *entry, int concepts)
{
    PyObject *text;
    int concept, is_open;
    if (!PyTuple_Check(entry)) {
        PyErr_SetString(PyExc_TypeError, "a term is a tuple");
        return -1;
    }
    if (!PyArg_ParseTuple(entry, "Uip", &text, &concept, &is_open))
        return -1;
    size_t start = letters->size, count = terms->size / sizeof(Term);
    Py_ssize_t size = add_text(letters, text);
    Term *term = size < 0 ? NULL : grow(terms, sizeof *term);
    if (!term)
        return -1;
    if (size < (Py_ssize_t)TERM_PREFIXES[0] || size > UINT16_MAX || concept < 0 || concept >= concepts
        || (count && term[-1].size < size)) {
        PyErr_SetString(PyExc_ValueError, "a term has at least two bytes and a concept, and longer terms come first");
        return -1;
    }
    *term = (Term){-1, (uint32_t)start, (uint16_t)size, (uint16_t)concept, (uint32_t)is_open};
    return 0;
}

static PyObject *pack_terms(Growing *terms, const Growing *letters, int concepts)
{
    size_t count = terms->size / sizeof(Term), seen = SEEN_WORDS * 8;
    TermCounts counts = {(uint32_t)count, table_size(count) / 2, (uint32_t)letters->size, (uint32_t)concepts};
    size_t chains = (size_t)counts.heads * 4;
    PyObject *packed = PyBytes_FromStringAndSize(
        NULL, (Py_ssize_t)(sizeof counts + seen + terms->size + chains + letters->size));
    if (!packed)
        return NULL;
    unsigned char *out = (unsigned char *)PyBytes_AS_STRING(packed);
    memcpy(out, &counts, sizeof counts);
    uint64_t *bits = (uint64_t *)(out + sizeof counts);
    memset(bits, 0, seen);
    Term *placed = (Term *)(out + sizeof counts + seen);
    if (count)
        memcpy(placed, terms->bytes, terms->size);
    int32_t *heads = (int32_t *)(placed + count);
    memset(heads, 0xFF, chains);
    if (letters->size)
        memcpy((unsigned char *)heads + chains, letters->bytes, letters->size);
    /* From the last to the first, so that the longest of one hash is the first. */
    for (size_t i = count; i-- > 0;) {
        size_t first = TERM_PREFIXES[level_of_term(placed[i].size)];
        uint32_t hash = hash_prefix(prefix_of(letters->bytes + placed[i].start, first));
        set_bit(bits, hash);
        int32_t *head = &heads[hash & (counts.heads - 1)];
        placed[i].next = *head;
        *head = (int32_t)i;
    }
    return packed;
}

static PyObject *pack_concepts(PyObject *self, PyObject *args)
{
    PyObject *entries, *packed = NULL;
    int concepts, is_made = 1;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!i", &PyList_Type, &entries, &concepts))
        return NULL;
    Growing terms = {0}, letters = {0};
    for (Py_ssize_t i = 0; is_made && i < PyList_GET_SIZE(entries); i++)
        is_made = add_term(&terms, &letters, PyList_GET_ITEM(entries, i), concepts) == 0;
    if (is_made)
        packed = pack_terms(&terms, &letters, concepts);
    PyMem_Free(terms.bytes);
    PyMem_Free(letters.bytes);
    return packed;
}

/* Take an index from its bytes, and see that all that it names is inside of it; -1 where it is not. */
static int take_concepts(ConceptIndex *self)
{
    const unsigned char *bytes = (const unsigned char *)PyBytes_AS_STRING(self->packed);
    size_t size = (size_t)PyBytes_GET_SIZE(self->packed), seen = SEEN_WORDS * 8;
    TermCounts counts;
    if (size < sizeof counts)
        return -1;
    memcpy(&counts, bytes, sizeof counts);
    size_t chains = counts.heads;
    if (size != sizeof counts + seen + counts.terms * sizeof(Term) + chains * 4 + counts.letters || !counts.heads
        || (counts.heads & (counts.heads - 1)) || counts.concepts != (size_t)PyTuple_GET_SIZE(self->names))
        return -1;
    self->seen = (const uint64_t *)(bytes + sizeof counts);
    self->terms = (const Term *)(bytes + sizeof counts + seen);
    self->heads = (const int32_t *)(self->terms + counts.terms);
    self->letters = (const unsigned char *)(self->heads + chains);
    for (uint32_t i = 0; i < counts.terms; i++) {
        const Term *term = &self->terms[i];
        if ((uint64_t)term->start + term->size > counts.letters || term->concept >= counts.concepts
            || (term->next != -1 && (term->next <= (int32_t)i || (uint32_t)term->next >= counts.terms)))
            return -1;
    }
    for (size_t i = 0; i < chains; i++)
        if (self->heads[i] < -1 || (self->heads[i] >= 0 && (uint32_t)self->heads[i] >= counts.terms))
            return -1;
    self->features = PyMem_Calloc((size_t)counts.concepts * counts.concepts + 1, sizeof *self->features);
    self->counts = counts;
    return self->features ? 0 : -1;
}

static PyObject *ConceptIndex_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
    static char *words[] = {"packed", "names", NULL};
    PyObject *packed, *names;
    if (!PyArg_ParseTupleAndKeywords(args, named, "SO!", words, &packed, &PyTuple_Type, &names))
        return NULL;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++)
        if (!PyUnicode_Check(PyTuple_GET_ITEM(names, i))) {
            PyErr_SetString(PyExc_TypeError, "names are strings");
            return NULL;
        }
    ConceptIndex *self = (ConceptIndex *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->packed = Py_NewRef(packed);
    self->names = Py_NewRef(names);
    if (take_concepts(self) < 0) {
        Py_DECREF(self);
        PyErr_SetString(PyExc_ValueError, "the bytes are no index of concepts");
        return NULL;
    }
    return (PyObject *)self;
}

/* The beginning of a word: its place, which character of the text the blank before it is, and for each level the hash of
   its first bytes where there are terms with that one, else -1. */
typedef struct {
    size_t at, character;
    int64_t hashes[LEVELS];
} Beginning;

static void hash_beginning(const ConceptIndex *self, const unsigned char *text, size_t room, Beginning *word)
{
    static const uint64_t masks[LEVELS] = {0xFFFF, 0xFFFFFFFF, UINT64_MAX};
    uint64_t prefix = room >= 8 ? prefix_of(text, 8) : prefix_of(text, room);
    for (int level = 0; level < LEVELS; level++) {
        uint32_t hash = hash_prefix(prefix & masks[level]);
        word->hashes[level] = room >= TERM_PREFIXES[level] && has_bit(self->seen, hash) ? (int64_t)hash : -1;
        if (word->hashes[level] >= 0)
            __builtin_prefetch(&self->heads[hash & (self->counts.heads - 1)]);
    }
}

/* Fetch the first term of each hash, or its letters. */
static void fetch_terms(const ConceptIndex *self, const Beginning *words, size_t count, int with_letters)
{
    for (size_t i = 0; i < count; i++)
        for (int level = 0; level < LEVELS; level++) {
            if (words[i].hashes[level] < 0)
                continue;
            int32_t head = self->heads[words[i].hashes[level] & (self->counts.heads - 1)];
            if (head >= 0 && with_letters)
                __builtin_prefetch(self->letters + self->terms[head].start);
            else if (head >= 0)
                __builtin_prefetch(&self->terms[head]);
        }
}

/* The longest term at the beginning of a word; NULL for none. */
static const Term *longest_term(const ConceptIndex *self, const Beginning *word, const unsigned char *text, size_t room)
{
    for (int level = LEVELS - 1; level >= 0; level--) {
        if (word->hashes[level] < 0)
            continue;
        int32_t at = self->heads[word->hashes[level] & (self->counts.heads - 1)];
        for (; at >= 0; at = self->terms[at].next) {
            const Term *term = &self->terms[at];
            if (term->size <= room && level_of_term(term->size) == level
                && !memcmp(text, self->letters + term->start, term->size))
                return term;
        }
    }
    return NULL;
}

/* A concept, and at which character of the text it was found. */
typedef struct {
    size_t start;
    uint32_t concept;
} Meant;

/* The beginnings of the next words; how many there are. */
static size_t find_beginnings(const ConceptIndex *self, const unsigned char *text, size_t length, size_t *at,
                              size_t *character, Beginning *words)
{
    size_t count = 0;
    for (; *at < length && count < BATCH; (*at)++) {
        if (text[*at] == ' ') {
            words[count] = (Beginning){*at + 1, *character, {0}};
            hash_beginning(self, text + *at + 1, length - *at - 1, &words[count++]);
        }
        *character += !is_continuation(text[*at]);
    }
    return count;
}

/* Find the concepts of a text that begins and ends with a blank: the longest term after each blank, and none inside of
   another one. Of terms, not of concepts, there are at most `most`. */
static size_t search_concepts(const ConceptIndex *self, const unsigned char *text, size_t length, Meant *found,
                              size_t most)
{
    Beginning words[BATCH];
    size_t at = 0, character = 0, end = 0, count = 0, terms = 0, batch;
    while (terms < most && (batch = find_beginnings(self, text, length, &at, &character, words))) {
        fetch_terms(self, words, batch, 0);
        fetch_terms(self, words, batch, 1);
        for (size_t i = 0; i < batch && terms < most; i++) {
            size_t start = words[i].at;
            const Term *term = start > end ? longest_term(self, &words[i], text + start, length - start) : NULL;
            if (!term)
                continue;
            end = start + term->size;
            if (term->is_open || (end < length && text[end] == ' '))
                found[count++] = (Meant){words[i].character, term->concept};
            terms++;
        }
    }
    return count;
}

/* Search words, each after a blank; how many concepts there are, or -1. `found` has room for `most`. */
static Py_ssize_t search_words(const ConceptIndex *self, PyObject *words, Meant *found, size_t most)
{
    size_t room = 2, size = 0;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(words); i++) {
        if (!PyUnicode_Check(PyList_GET_ITEM(words, i))) {
            PyErr_SetString(PyExc_TypeError, "words are strings");
            return -1;
        }
        room += room_for(PyList_GET_ITEM(words, i)) + 1;
    }
    unsigned char *text = room > MAX_BYTES ? NULL : PyMem_Malloc(room);
    if (!text) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(words); i++) {
        text[size++] = ' ';
        size += write_text(text + size, PyList_GET_ITEM(words, i));
    }
    text[size++] = ' ';
    size_t count = search_concepts(self, text, size, found, most);
    PyMem_Free(text);
    return (Py_ssize_t)count;
}

#define MOST_TERMS 4096

static PyObject *ConceptIndex_find(ConceptIndex *self, PyObject *args)
{
    PyObject *words;
    int most;
    Meant found[MOST_TERMS];
    if (!PyArg_ParseTuple(args, "O!i", &PyList_Type, &words, &most))
        return NULL;
    if (most < 0 || most > MOST_TERMS) {
        PyErr_SetString(PyExc_ValueError, "the number of terms is out of range");
        return NULL;
    }
    Py_ssize_t count = search_words(self, words, found, (size_t)most);
    PyObject *result = count < 0 ? NULL : PyList_New(count);
    for (Py_ssize_t i = 0; result && i < count; i++) {
        PyObject *each = Py_BuildValue("(nO)", (Py_ssize_t)found[i].start, PyTuple_GET_ITEM(self->names, found[i].concept));
        if (!each)
            Py_CLEAR(result);
        else
            PyList_SET_ITEM(result, i, each);
    }
    return result;
}

/* The name of a feature, `c:one` or `c:one+other`; concepts are numbered in the order of their names. */
static PyObject *name_feature(const ConceptIndex *self, size_t number)
{
    if (!self->features[number]) {
        PyObject *one = PyTuple_GET_ITEM(self->names, number / self->counts.concepts);
        PyObject *other = PyTuple_GET_ITEM(self->names, number % self->counts.concepts);
        self->features[number] =
            one == other ? PyUnicode_FromFormat("c:%U", one) : PyUnicode_FromFormat("c:%U+%U", one, other);
    }
    return self->features[number];
}

#define MOST_BESIDE 64

/* The numbers of the features of concepts in the order in which they are found, each once; how many there are, or -1.
   `features` has room for each concept with all that may stand beside it. */
static Py_ssize_t number_features(const ConceptIndex *self, const Meant *found, size_t count, int near, int beside,
                                  uint32_t *features)
{
    size_t concepts = self->counts.concepts, listed = 0;
    uint64_t *seen = PyMem_Calloc(concepts * concepts / 64 + 1, sizeof *seen);
    if (!seen) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; i < count; i++)
        for (size_t j = i; j < count && j <= i + (size_t)beside; j++) {
            if (found[j].start - found[i].start > (size_t)near)
                break;
            size_t one = found[i].concept, other = found[j].concept;
            size_t number = (one < other ? one : other) * concepts + (one < other ? other : one);
            if (seen[number >> 6] >> (number & 63) & 1)
                continue;
            seen[number >> 6] |= (uint64_t)1 << (number & 63);
            features[listed++] = (uint32_t)number;
        }
    PyMem_Free(seen);
    return (Py_ssize_t)listed;
}

/* The same of the subject and the body of a word array, which lie behind each other. */
static Py_ssize_t list_feature_numbers(const ConceptIndex *self, const WordArray *array, int most, int near, int beside,
                                       uint32_t *features)
{
    Meant found[MOST_TERMS];
    size_t start = array->names < array->count ? array->words[array->names].start - 1 : array->size;
    size_t count = search_concepts(self, array->letters + start, array->size - start, found, (size_t)most);
    return number_features(self, found, count, near, beside, features);
}

static PyObject *ConceptIndex_features(ConceptIndex *self, PyObject *args)
{
    PyObject *words;
    int most, near, beside;
    Meant found[MOST_TERMS];
    if (!PyArg_ParseTuple(args, "O!iii", &PyList_Type, &words, &most, &near, &beside))
        return NULL;
    if (most < 0 || most > MOST_TERMS || near < 0 || beside < 0 || beside > MOST_BESIDE) {
        PyErr_SetString(PyExc_ValueError, "the number of terms is out of range");
        return NULL;
    }
    Py_ssize_t count = search_words(self, words, found, (size_t)most);
    if (count < 0)
        return NULL;
    uint32_t *numbers = PyMem_Malloc(((size_t)count * ((size_t)beside + 1) + 1) * sizeof *numbers);
    Py_ssize_t listed = numbers ? number_features(self, found, (size_t)count, near, beside, numbers) : -1;
    PyObject *features = !numbers ? PyErr_NoMemory() : listed < 0 ? NULL : PyList_New(listed);
    for (Py_ssize_t i = 0; features && i < listed; i++) {
        PyObject *name = name_feature(self, numbers[i]);
        if (name)
            PyList_SET_ITEM(features, i, Py_NewRef(name));
        else
            Py_CLEAR(features);
    }
    PyMem_Free(numbers);
    return features;
}
