/* Places of phrases in a text. Part of `_speedups.c`.

An index is one flat piece of bytes: what was made of the phrases once is kept in a file, and a later start takes it from
there as it is. All texts are UTF-8 (`characters.c`). */

/* One phrase: what stands around the words by which it is known. A mask has a bit for each ASCII character that may
   stand right beside them, and `is_foreign` says whether others may. */
typedef struct {
    uint64_t left[2], right[2];
    int32_t before, after; /* where the rest of it begins in `rests`, on either side; -1 for none */
    uint8_t has_left, has_right, is_left_foreign, is_right_foreign;
    uint8_t unused[4];
} Phrase;

/* Words by which a phrase is known. `first` are their first eight bytes, or all and then zeros. */
typedef struct {
    uint64_t first;
    int32_t phrase;
    uint32_t start;
    uint16_t size;
    uint8_t skip, is_open;
    uint8_t unused[4];
} PhraseWord;

#define PHRASE_LEVELS 4
#define SEEN_BITS 18
#define SEEN_WORDS (1 << (SEEN_BITS - 6))

/* The first bytes of an index: how many of each there are. Then come, without gaps: two bits for each hash of first bytes
   that there is, and one for those of words that may stand inside of another word; phrases; words, those of one hash
   behind each other and in their order; where the words of each hash begin, and where the last ones end; rests, letters of
   words, choices. A rest has the number of its slots, and whether it ends with a word; each slot the number of its
   alternatives; each of those its place among the choices and its size. */
typedef struct {
    uint32_t phrases, words, heads, rests, letters, choices;
} PhraseCounts;

typedef struct {
    PyObject_HEAD
    PyObject *packed;
    PhraseCounts counts;
    /* Words are told apart by their first bytes: three, five, six, or eight. `inside` has the hashes of three. */
    const uint64_t *seen, *inside;
    const Phrase *phrases;
    const PhraseWord *words;
    const uint32_t *heads;
    const int32_t *rests;
    const unsigned char *letters, *choices;
    uint32_t mask;
} PhraseIndex;

static const size_t PREFIXES[PHRASE_LEVELS] = {3, 5, 6, 8};

static int level_of(size_t length)
{
    return length >= PREFIXES[3] ? 3 : length >= PREFIXES[2] ? 2 : length >= PREFIXES[1];
}

/* The first bytes as one number, of eight bytes at most; there are at least so many. */
static uint64_t prefix_of(const unsigned char *text, size_t size)
{
    uint64_t prefix = 0;
    for (size_t i = 0; i < size && i < 8; i++)
        prefix |= (uint64_t)text[i] << (8 * i);
    return prefix;
}

/* The same for eight, which are there: a loop over bytes would cost more than all that is done with them. */
static uint64_t eight_of(const unsigned char *text)
{
    uint64_t prefix;
    memcpy(&prefix, text, sizeof prefix);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    prefix = __builtin_bswap64(prefix);
#endif
    return prefix;
}

/* So many bytes of a prefix. */
static uint64_t cut_prefix(uint64_t prefix, size_t size)
{
    return size >= 8 ? prefix : prefix & (((uint64_t)1 << (8 * size)) - 1);
}

static uint64_t mix_prefix(uint64_t prefix)
{
    return prefix * 0x9E3779B97F4A7C15u;
}

/* The hash of first bytes, of as many bits as there are bits to set. */
static uint32_t hash_prefix(uint64_t prefix)
{
    return (uint32_t)(mix_prefix(prefix) >> (64 - SEEN_BITS));
}

/* Of a mixed prefix: the number of its chain, its word of `seen`, and its two bits there. One bit alone would let three
   times as many places pass. */
static uint32_t chain_of(uint64_t mixed, uint32_t mask)
{
    return (uint32_t)(mixed >> 40) & mask;
}

static size_t seen_word_of(uint64_t mixed)
{
    return mixed >> (64 - SEEN_BITS + 6);
}

static uint64_t seen_bits_of(uint64_t mixed)
{
    return (uint64_t)1 << (mixed >> 46 & 63) | (uint64_t)1 << (mixed >> 40 & 63);
}

/* ---------------------------------------------------------------- making an index */

static void PhraseIndex_dealloc(PhraseIndex *self)
{
    Py_XDECREF(self->packed);
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

/* Bytes that grow. */
typedef struct {
    unsigned char *bytes;
    size_t size, room;
} Growing;

/* Room for so many bytes more, filled with zeros; NULL where there is none. */
static void *grow(Growing *growing, size_t size)
{
    if (size > MAX_BYTES || growing->size + size > MAX_BYTES) {
        PyErr_SetString(PyExc_ValueError, "too many phrases");
        return NULL;
    }
    if (growing->size + size > growing->room) {
        size_t more = (growing->room + size) * 2;
        unsigned char *larger = PyMem_Realloc(growing->bytes, more);
        if (!larger)
            return PyErr_NoMemory();
        growing->bytes = larger;
        growing->room = more;
    }
    unsigned char *place = growing->bytes + growing->size;
    memset(place, 0, size);
    growing->size += size;
    return place;
}

static int add_number(Growing *numbers, size_t number)
{
    int32_t *place = grow(numbers, sizeof *place);
    if (!place)
        return -1;
    *place = (int32_t)number;
    return 0;
}

/* Append the UTF-8 of a text; how many bytes that are, or -1. */
static Py_ssize_t add_text(Growing *letters, PyObject *text)
{
    if (!PyUnicode_Check(text)) {
        PyErr_SetString(PyExc_TypeError, "words and alternatives are strings");
        return -1;
    }
    size_t room = room_for(text);
    unsigned char *place = grow(letters, room);
    if (!place)
        return -1;
    size_t size = write_text(place, text);
    letters->size -= room - size;
    return (Py_ssize_t)size;
}

/* Set the bits of the ASCII characters of a string, and whether it has others; whether there are any at all. */
static uint8_t fill_mask(PyObject *characters, uint64_t mask[2], uint8_t *is_foreign)
{
    Py_ssize_t length = PyUnicode_GET_LENGTH(characters);
    for (Py_ssize_t i = 0; i < length; i++) {
        Py_UCS4 c = PyUnicode_READ_CHAR(characters, i);
        if (c < 128)
            mask[c >> 6] |= (uint64_t)1 << (c & 63);
        else
            *is_foreign = 1;
    }
    return length > 0;
}

/* Keep the rest of a phrase on one side: (whether it ends with a word, slot, slot, …), or nothing. */
static int add_rest(Growing *rests, Growing *choices, PyObject *rest, int32_t *place)
{
    Py_ssize_t slots = PyTuple_GET_SIZE(rest) - 1;
    *place = slots < 0 ? -1 : (int32_t)(rests->size / 4);
    if (slots < 0)
        return 0;
    if (add_number(rests, (size_t)slots) < 0
        || add_number(rests, (size_t)(PyObject_IsTrue(PyTuple_GET_ITEM(rest, 0)) > 0)) < 0)
        return -1;
    for (Py_ssize_t i = 0; i < slots; i++) {
        PyObject *slot = PyTuple_GET_ITEM(rest, i + 1);
        if (!PyTuple_Check(slot)) {
            PyErr_SetString(PyExc_TypeError, "a slot is a tuple of alternatives");
            return -1;
        }
        if (add_number(rests, (size_t)PyTuple_GET_SIZE(slot)) < 0)
            return -1;
        for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(slot); j++) {
            size_t start = choices->size;
            Py_ssize_t size = add_text(choices, PyTuple_GET_ITEM(slot, j));
            if (size < 0 || add_number(rests, start) < 0 || add_number(rests, (size_t)size) < 0)
                return -1;
        }
    }
    return 0;
}

/* The parts of an index while it is made. */
typedef struct {
    Growing phrases, words, rests, letters, choices;
} Parts;

static int add_phrase(Parts *parts, PyObject *entry)
{
    PyObject *before, *after, *left, *right;
    Phrase phrase = {0};
    if (!PyTuple_Check(entry)) {
        PyErr_SetString(PyExc_TypeError, "a phrase is a tuple");
        return -1;
    }
    if (!PyArg_ParseTuple(entry, "O!O!UU", &PyTuple_Type, &before, &PyTuple_Type, &after, &left, &right)
        || add_rest(&parts->rests, &parts->choices, before, &phrase.before) < 0
        || add_rest(&parts->rests, &parts->choices, after, &phrase.after) < 0)
        return -1;
    phrase.has_left = fill_mask(left, phrase.left, &phrase.is_left_foreign);
    phrase.has_right = fill_mask(right, phrase.right, &phrase.is_right_foreign);
    Phrase *place = grow(&parts->phrases, sizeof phrase);
    if (!place)
        return -1;
    *place = phrase;
    return 0;
}

static int add_known_word(Parts *parts, PyObject *entry, Py_ssize_t phrases)
{
    PyObject *text;
    int skip, is_open, phrase;
    if (!PyTuple_Check(entry)) {
        PyErr_SetString(PyExc_TypeError, "a word is a tuple");
        return -1;
    }
    if (!PyArg_ParseTuple(entry, "Uipi", &text, &skip, &is_open, &phrase))
        return -1;
    size_t start = parts->letters.size;
    Py_ssize_t size = add_text(&parts->letters, text);
    PhraseWord *word = size < 0 ? NULL : grow(&parts->words, sizeof *word);
    if (!word)
        return -1;
    /* What is skipped is a blank. */
    if (size < (Py_ssize_t)PREFIXES[0] || size > UINT16_MAX || skip < 0 || skip > 1 || phrase < 0 || phrase >= phrases) {
        PyErr_SetString(PyExc_ValueError, "a word has at least three bytes, skips a blank or nothing, and is of a phrase");
        return -1;
    }
    uint64_t first = prefix_of(parts->letters.bytes + start, (size_t)size);
    *word = (PhraseWord){first, phrase, (uint32_t)start, (uint16_t)size, (uint8_t)skip, (uint8_t)is_open, {0}};
    return 0;
}

static void set_bit(uint64_t *bits, uint32_t number)
{
    bits[number >> 6] |= (uint64_t)1 << (number & 63);
}

static int has_bit(const uint64_t *bits, uint32_t number)
{
    return bits[number >> 6] >> (number & 63) & 1;
}

/* Whether words may be found right after a letter or digit of ASCII: only if something of the phrase stands there. */
static int may_stand_inside(const Phrase *phrase)
{
    static const uint64_t letters[2] = {0x03FF000000000000u, 0x07FFFFFE07FFFFFEu};
    return phrase->before >= 0
        && (!phrase->has_left || (phrase->left[0] & letters[0]) || (phrase->left[1] & letters[1]));
}

static uint64_t mix_word(const PhraseWord *word)
{
    return mix_prefix(cut_prefix(word->first, PREFIXES[level_of(word->size)]));
}

/* Set the bits of all words. `seen` and `inside` stand one after the other. */
static void mark_words(const Parts *parts, size_t count, uint64_t *seen)
{
    const PhraseWord *words = (const PhraseWord *)parts->words.bytes;
    const Phrase *phrases = (const Phrase *)parts->phrases.bytes;
    for (size_t i = 0; i < count; i++) {
        uint64_t mixed = mix_word(&words[i]);
        seen[seen_word_of(mixed)] |= seen_bits_of(mixed);
        if (may_stand_inside(&phrases[words[i].phrase]))
            set_bit(seen + SEEN_WORDS, hash_prefix(cut_prefix(words[i].first, PREFIXES[0])));
    }
}

/* Put the words of each chain behind each other, in their order; `heads` has one number more than there are chains. */
static void sort_words(const Parts *parts, size_t count, uint32_t *heads, uint32_t chains, PhraseWord *sorted)
{
    const PhraseWord *words = (const PhraseWord *)parts->words.bytes;
    memset(heads, 0, ((size_t)chains + 1) * sizeof *heads);
    for (size_t i = 0; i < count; i++)
        heads[chain_of(mix_word(&words[i]), chains - 1) + 1]++;
    for (uint32_t i = 0; i < chains; i++)
        heads[i + 1] += heads[i];
    for (size_t i = 0; i < count; i++)
        sorted[heads[chain_of(mix_word(&words[i]), chains - 1)]++] = words[i];
    /* Each number is now where its chain ends, which is where the next one begins. */
    memmove(heads + 1, heads, (size_t)chains * sizeof *heads);
    heads[0] = 0;
}

static PyObject *pack_parts(const Parts *parts)
{
    size_t words = parts->words.size / sizeof(PhraseWord), seen = 2 * SEEN_WORDS * 8;
    uint32_t chains = table_size(words) / 2;
    PhraseCounts counts = {
        (uint32_t)(parts->phrases.size / sizeof(Phrase)), (uint32_t)words,           chains,
        (uint32_t)(parts->rests.size / 4),                (uint32_t)parts->letters.size, (uint32_t)parts->choices.size,
    };
    size_t heads = ((size_t)chains + 1) * 4;
    size_t total = sizeof counts + seen + parts->phrases.size + parts->words.size + heads + parts->rests.size
        + parts->letters.size + parts->choices.size;
    uint64_t *bits = PyMem_Calloc(seen, 1);
    uint32_t *first = PyMem_Malloc(heads);
    PhraseWord *sorted = PyMem_Malloc(parts->words.size + 1);
    PyObject *packed = bits && first && sorted ? PyBytes_FromStringAndSize(NULL, (Py_ssize_t)total) : NULL;
    if (packed) {
        mark_words(parts, words, bits);
        sort_words(parts, words, first, chains, sorted);
        unsigned char *out = (unsigned char *)PyBytes_AS_STRING(packed);
        const Growing pieces[] = {
            {(unsigned char *)&counts, sizeof counts, 0},        {(unsigned char *)bits, seen, 0},  parts->phrases,
            {(unsigned char *)sorted, parts->words.size, 0},     {(unsigned char *)first, heads, 0}, parts->rests,
            parts->letters, parts->choices,
        };
        for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
            if (pieces[i].size)
                memcpy(out, pieces[i].bytes, pieces[i].size);
            out += pieces[i].size;
        }
    } else if (!PyErr_Occurred()) {
        PyErr_NoMemory();
    }
    PyMem_Free(bits);
    PyMem_Free(first);
    PyMem_Free(sorted);
    return packed;
}

/* Whether a rest, and all that it names, is inside of an index. */
static int is_rest_inside(const PhraseIndex *self, int32_t place)
{
    uint64_t at = (uint32_t)place, end = self->counts.rests;
    if (place == -1)
        return 1;
    if (place < 0 || at + 2 > end || self->rests[at] < 0)
        return 0;
    int32_t slots = self->rests[at];
    at += 2;
    for (int32_t i = 0; i < slots; i++) {
        if (at >= end || self->rests[at] < 0 || at + 1 + 2 * (uint64_t)self->rests[at] > end)
            return 0;
        uint64_t next = at + 1 + 2 * (uint64_t)self->rests[at];
        for (at++; at < next; at += 2)
            if (self->rests[at] < 0 || self->rests[at + 1] < 0
                || (uint64_t)self->rests[at] + (uint64_t)self->rests[at + 1] > self->counts.choices)
                return 0;
    }
    return 1;
}

/* Whether everything that an index names is inside of it: a file can be cut or foreign. */
static int is_index_whole(const PhraseIndex *self)
{
    const PhraseCounts *counts = &self->counts;
    for (uint32_t i = 0; i < counts->phrases; i++)
        if (!is_rest_inside(self, self->phrases[i].before) || !is_rest_inside(self, self->phrases[i].after))
            return 0;
    for (uint32_t i = 0; i < counts->words; i++) {
        const PhraseWord *word = &self->words[i];
        if (word->phrase < 0 || (uint32_t)word->phrase >= counts->phrases || word->size < PREFIXES[0] || word->skip > 1
            || (uint64_t)word->start + word->size > counts->letters)
            return 0;
    }
    for (size_t i = 0; i < counts->heads; i++)
        if (self->heads[i] > self->heads[i + 1])
            return 0;
    return self->heads[counts->heads] <= counts->words;
}

/* Take an index from its bytes; -1 where they are none. */
static int take_index(PhraseIndex *self, PyObject *packed)
{
    const unsigned char *bytes = (const unsigned char *)PyBytes_AS_STRING(packed);
    size_t size = (size_t)PyBytes_GET_SIZE(packed);
    PhraseCounts *counts = &self->counts;
    int is_whole = size >= sizeof *counts;
    if (is_whole) {
        memcpy(counts, bytes, sizeof *counts);
        const size_t sizes[] = {
            sizeof *counts, 2 * SEEN_WORDS * 8, counts->phrases * sizeof(Phrase),
            counts->words * sizeof(PhraseWord), ((size_t)counts->heads + 1) * 4, (size_t)counts->rests * 4,
            counts->letters, counts->choices,
        };
        const unsigned char *starts[8];
        size_t total = 0;
        for (size_t i = 0; i < 8; i++) {
            starts[i] = bytes + (total <= size ? total : 0);
            total += sizes[i];
        }
        self->seen = (const uint64_t *)starts[1];
        self->inside = self->seen + SEEN_WORDS;
        self->phrases = (const Phrase *)starts[2];
        self->words = (const PhraseWord *)starts[3];
        self->heads = (const uint32_t *)starts[4];
        self->rests = (const int32_t *)starts[5];
        self->letters = starts[6];
        self->choices = starts[7];
        self->mask = counts->heads - 1;
        is_whole = total == size && counts->heads && !(counts->heads & self->mask) && is_index_whole(self);
    }
    if (!is_whole) {
        PyErr_SetString(PyExc_ValueError, "the bytes are no index of phrases");
        return -1;
    }
    self->packed = Py_NewRef(packed);
    return 0;
}

static PyObject *pack_phrases(PyObject *self, PyObject *args)
{
    PyObject *phrases, *words, *packed = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!O!", &PyList_Type, &phrases, &PyList_Type, &words))
        return NULL;
    Parts parts = {0};
    Py_ssize_t count = PyList_GET_SIZE(phrases), known = PyList_GET_SIZE(words);
    int is_made = 1;
    for (Py_ssize_t i = 0; is_made && i < count && i < PyList_GET_SIZE(phrases); i++)
        is_made = add_phrase(&parts, PyList_GET_ITEM(phrases, i)) == 0;
    for (Py_ssize_t i = 0; is_made && i < known && i < PyList_GET_SIZE(words); i++)
        is_made = add_known_word(&parts, PyList_GET_ITEM(words, i), count) == 0;
    if (is_made)
        packed = pack_parts(&parts);
    Growing *all[] = {&parts.phrases, &parts.words, &parts.rests, &parts.letters, &parts.choices};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        PyMem_Free(all[i]->bytes);
    return packed;
}

static PyObject *PhraseIndex_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
    static char *names[] = {"packed", NULL};
    PyObject *packed;
    if (!PyArg_ParseTupleAndKeywords(args, named, "S", names, &packed))
        return NULL;
    PhraseIndex *self = (PhraseIndex *)type->tp_alloc(type, 0);
    if (self && take_index(self, packed) < 0)
        Py_CLEAR(self);
    return (PyObject *)self;
}

/* ---------------------------------------------------------------- one phrase at one place */

/* A text from which a phrase is read, and the direction. */
typedef struct {
    const unsigned char *text;
    size_t length;
    int is_backward;
} Side;

#define NOWHERE ((size_t)-1)

/* The place after the character at a place, in the direction of a side; NOWHERE at the end of the text. */
static size_t step_over(const Side *side, size_t at)
{
    if (!side->is_backward)
        return at >= side->length ? NOWHERE : at + size_of_character(side->text[at]);
    if (at == 0)
        return NOWHERE;
    for (at--; at > 0 && is_continuation(side->text[at]); at--)
        ;
    return at;
}

static int is_word_before(const unsigned char *text, size_t at, int with_underscore)
{
    if (at == 0)
        return 0;
    for (at--; at > 0 && is_continuation(text[at]); at--)
        ;
    return text[at] < 0x80 ? is_word_character(text[at]) || (with_underscore && text[at] == '_')
                           : Py_UNICODE_ISALNUM(character_at(text + at));
}

static int is_word_after(const unsigned char *text, size_t length, size_t at, int with_underscore)
{
    if (at >= length)
        return 0;
    return text[at] < 0x80 ? is_word_character(text[at]) || (with_underscore && text[at] == '_')
                           : Py_UNICODE_ISALNUM(character_at(text + at));
}

/* What `\w` says of the character ahead of a place, or behind it, in the direction of a side. */
static int is_word_ahead(const Side *side, size_t at)
{
    return side->is_backward ? is_word_before(side->text, at, 1) : is_word_after(side->text, side->length, at, 1);
}

static int is_word_behind(const Side *side, size_t at)
{
    return side->is_backward ? is_word_after(side->text, side->length, at, 1) : is_word_before(side->text, at, 1);
}

#define UNSPACED 0x2E80

/* Whether a cut at this place goes through a word; where writing has no blanks, none does. */
static int cuts_word(const unsigned char *text, size_t length, size_t at)
{
    if (at == 0 || at >= length || !is_word_before(text, at, 0) || !is_word_after(text, length, at, 0))
        return 0;
    size_t left = at - 1;
    while (left > 0 && is_continuation(text[left]))
        left--;
    return character_at(text + left) < UNSPACED && character_at(text + at) < UNSPACED;
}

#define LONGEST_ENDING_OF_WORD 20

static size_t match_slots(const PhraseIndex *self, const int32_t *slot, int32_t slots, int is_whole, const Side *side,
                          size_t at);

/* Match the rest of one alternative, then the slots after it; the place after the last one, or NOWHERE. Alternatives of
   the side that is read backwards have their characters in that order, each with its bytes as they stand. */
static size_t match_choice(const PhraseIndex *self, const unsigned char *choice, size_t size, const int32_t *slot,
                           int32_t slots, int is_whole, const Side *side, size_t at)
{
    while (size) {
        if (choice[0] == '*') {
            size_t places[LONGEST_ENDING_OF_WORD + 1] = {at};
            int most = 0;
            for (; most < LONGEST_ENDING_OF_WORD && is_word_ahead(side, places[most]); most++)
                places[most + 1] = step_over(side, places[most]);
            for (; most >= 0; most--) {
                size_t end = match_choice(self, choice + 1, size - 1, slot, slots, is_whole, side, places[most]);
                if (end != NOWHERE)
                    return end;
            }
            return NOWHERE;
        }
        size_t wide = size_of_character(choice[0]);
        if (wide > size || (side->is_backward ? at : side->length - at) < wide)
            return NOWHERE;
        size_t start = side->is_backward ? at - wide : at;
        if (side->text[start] != choice[0] || (wide > 1 && memcmp(side->text + start, choice, wide)))
            return NOWHERE;
        at = side->is_backward ? start : at + wide;
        choice += wide;
        size -= wide;
    }
    return match_slots(self, slot, slots, is_whole, side, at);
}

/* Match slots one after another, as the regular expression of the phrase does: longer alternatives first. */
static size_t match_slots(const PhraseIndex *self, const int32_t *slot, int32_t slots, int is_whole, const Side *side,
                          size_t at)
{
    if (!slots)
        return is_whole && is_word_behind(side, at) && is_word_ahead(side, at) ? NOWHERE : at;
    const int32_t *next = slot + 1 + 2 * slot[0];
    for (const int32_t *choice = slot + 1; choice < next; choice += 2) {
        size_t end = match_choice(self, self->choices + choice[0], (size_t)choice[1], next, slots - 1, is_whole, side, at);
        if (end != NOWHERE)
            return end;
    }
    return NOWHERE;
}

static size_t match_rest(const PhraseIndex *self, int32_t rest, const Side *side, size_t at)
{
    const int32_t *slots = self->rests + rest;
    return match_slots(self, slots + 2, slots[0], slots[1], side, at);
}

/* Whether the character that begins at a place may be one of the mask. */
static int may_be(unsigned char first, const uint64_t mask[2], int is_foreign)
{
    return first < 0x80 ? mask[first >> 6] >> (first & 63) & 1 : is_foreign;
}

/* Whether a phrase stands around its words; `start` and `end` are those of the words, then those of the phrase. */
static int stands_at(const PhraseIndex *self, const PhraseWord *word, const unsigned char *text, size_t length,
                     size_t *start, size_t *end)
{
    const Phrase *phrase = &self->phrases[word->phrase];
    if (!word->is_open && phrase->has_right
        && (*end >= length || !may_be(text[*end], phrase->right, phrase->is_right_foreign)))
        return 0;
    size_t first = *start, stop = *end;
    if (phrase->before >= 0) {
        /* The last byte of a character that is not ASCII is not either. */
        if (phrase->has_left && (first == 0 || !may_be(text[first - 1], phrase->left, phrase->is_left_foreign)))
            return 0;
        first = match_rest(self, phrase->before, &(Side){text, length, 1}, first);
        if (first == NOWHERE)
            return 0;
    } else if (cuts_word(text, length, first)) {
        return 0;
    }
    if (word->is_open)
        while (is_word_after(text, length, stop, 0))
            stop += size_of_character(text[stop]);
    if (phrase->after >= 0) {
        stop = match_rest(self, phrase->after, &(Side){text, length, 0}, stop);
        if (stop == NOWHERE)
            return 0;
    } else if (cuts_word(text, length, stop)) {
        return 0;
    }
    *start = first;
    *end = stop;
    return 1;
}
