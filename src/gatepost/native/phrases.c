/* Places of phrases in a text. Part of `_speedups.c`. */

/* One phrase at the words by which it is known. A mask has a bit for each ASCII character that may stand beside them. */
typedef struct {
    uint64_t left[2], right[2];
    int32_t next;
    uint32_t word, size;
    int32_t before, after; /* where the rest of it begins in `rests`, on either side; -1 for none */
    uint8_t skip, has_left, has_right, is_open;
} PhraseEntry;

#define LEVELS 3
#define SEEN_BITS 18
#define SEEN_WORDS (1 << (SEEN_BITS - 6))

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
    /* Words are told apart by their first characters: three, four, or eight. A bit for each hash that there is. */
    uint64_t seen[LEVELS][SEEN_WORDS];
    int32_t *heads[LEVELS];
    uint32_t mask;
} PhraseIndex;

#define FOREIGN 0x80

static const size_t PREFIXES[LEVELS] = {3, 4, 8};

static int level_of(size_t length)
{
    return length >= PREFIXES[2] ? 2 : length >= PREFIXES[1];
}

/* The first characters as one number; there are at least so many. */
static uint64_t prefix_of(const unsigned char *text, size_t size)
{
    uint64_t prefix = 0;
    for (size_t i = 0; i < size; i++)
        prefix |= (uint64_t)text[i] << (8 * i);
    return prefix;
}

static uint32_t hash_prefix(uint64_t prefix)
{
    return (uint32_t)(prefix * 0x9E3779B97F4A7C15u >> (64 - SEEN_BITS));
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
    for (int level = 0; level < LEVELS; level++)
        PyMem_Free(self->heads[level]);
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
    for (int level = 0; level < LEVELS; level++)
        self->heads[level] = PyMem_Malloc(size * 4);
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
    if (!self->entries || !self->heads[0] || !self->heads[1] || !self->heads[2] || !self->letters) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    for (int level = 0; level < LEVELS; level++)
        memset(self->heads[level], 0xFF, size * 4);
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
        int level = level_of((size_t)length);
        uint32_t hash = hash_prefix(prefix_of((unsigned char *)self->letters + entry->word, PREFIXES[level]));
        self->seen[level][hash >> 6] |= (uint64_t)1 << (hash & 63);
        int32_t *head = &self->heads[level][hash & self->mask];
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
static int look_at(const PhraseIndex *self, const unsigned char *text, size_t length, size_t at, int level,
                   uint32_t hash, FoundList *found)
{
    for (int32_t i = self->heads[level][hash & self->mask]; i >= 0; i = self->entries[i].next) {
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

static int is_seen(const PhraseIndex *self, int level, uint32_t hash)
{
    return self->seen[level][hash >> 6] >> (hash & 63) & 1;
}

#define BATCH 32

/* A place that begins like a phrase. */
typedef struct {
    size_t at;
    uint32_t hash;
    int level;
} Candidate;

/* Look at several places at once: what they are compared with is fetched for all of them before the first. */
static int look_at_all(const PhraseIndex *self, const unsigned char *text, size_t length, const Candidate *places,
                       int count, FoundList *found)
{
    for (int i = 0; i < count; i++) {
        int32_t head = self->heads[places[i].level][places[i].hash & self->mask];
        if (head >= 0)
            __builtin_prefetch(&self->entries[head]);
    }
    for (int i = 0; i < count; i++) {
        int32_t head = self->heads[places[i].level][places[i].hash & self->mask];
        if (head >= 0)
            __builtin_prefetch(self->letters + self->entries[head].word);
    }
    for (int i = 0; i < count; i++)
        if (look_at(self, text, length, places[i].at, places[i].level, places[i].hash, found) < 0)
            return -1;
    return 0;
}

/* Add a place to those to look at, for each number of first characters with which a phrase begins there: no branch that a
   processor would guess wrong. */
static int add_places(const PhraseIndex *self, size_t at, uint64_t prefix, int levels, Candidate *places, int count)
{
    static const uint64_t masks[LEVELS] = {0xFFFFFF, 0xFFFFFFFF, UINT64_MAX};
    for (int level = 0; level < levels; level++) {
        uint32_t hash = hash_prefix(prefix & masks[level]);
        places[count] = (Candidate){at, hash, level};
        count += is_seen(self, level, hash);
    }
    return count;
}

/* Look at every place of a text; -1 where memory ran out. Few places begin like a phrase: the others cost three hashes. */
static int search_text(const PhraseIndex *self, const unsigned char *text, size_t length, FoundList *found)
{
    Candidate places[BATCH + LEVELS];
    int count = 0;
    size_t at = 0;
    for (; at + PREFIXES[2] <= length; at++) {
        count = add_places(self, at, prefix_of(text + at, PREFIXES[2]), LEVELS, places, count);
        if (count < BATCH)
            continue;
        if (look_at_all(self, text, length, places, count, found) < 0)
            return -1;
        count = 0;
    }
    for (; at + PREFIXES[0] <= length; at++) {
        int levels = at + PREFIXES[1] <= length ? 2 : 1;
        count = add_places(self, at, prefix_of(text + at, PREFIXES[levels - 1]), levels, places, count);
        if (count < BATCH)
            continue;
        if (look_at_all(self, text, length, places, count, found) < 0)
            return -1;
        count = 0;
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
