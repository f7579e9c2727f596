/* The word array: the words of one message in one piece, read by concepts, text model, signature and feature row. Part of
   `_speedups.c`.

First come the words of senders' names, then those of the subject, then those of the body. `letters` begins with a blank
and has one after each word, so that subject and body are the text in which concepts are looked for. */

enum { MIXED, ASCII_LETTERS, LETTERS, DIGITS };

typedef struct {
    uint32_t start, size, hash;
    uint16_t characters;
    uint8_t sort;
} Word;

/* Characters that text in bytes has no room for: two signs that are words by themselves, then letters. In such text they
   are bytes that are control characters elsewhere, 2 to 8 and 14 to 26; 27 is what nobody sees. */
#define MOST_SPECIALS 20
#define SPECIAL_SIGNS 2
#define UNSEEN 27

typedef struct {
    unsigned char letters[MOST_SPECIALS][4];
    size_t sizes[MOST_SPECIALS], count;
} Specials;

static int special_of(unsigned char c)
{
    return c >= 2 && c <= 8 ? c - 2 : c >= 14 && c < UNSEEN ? c - 7 : -1;
}

typedef struct {
    PyObject_HEAD
    Word *words;
    unsigned char *letters;
    /* How many words there are in all, of names and of the subject; how many bytes of letters; and the room for both. */
    size_t count, names, subject, size, word_room, letter_room;
    /* What special bytes of the text that is being read stand for; NULL for ASCII, and when it has been read. */
    const Specials *specials;
} WordArray;

#define HASH_BEGINS 2166136261u
#define HASH_FACTOR 16777619u

static uint32_t finish_hash(uint32_t hash)
{
    hash ^= hash >> 15;
    hash *= 0x2C1B3C6Du;
    return hash ^ (hash >> 13);
}

static uint32_t hash_bytes(const char *bytes, size_t size)
{
    uint32_t hash = HASH_BEGINS;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * HASH_FACTOR;
    return finish_hash(hash);
}

static uint32_t table_size(size_t items)
{
    uint32_t size = 16;
    while (size < items * 2)
        size <<= 1;
    return size;
}

/* What str.isalpha says. */
static int is_alpha(PyObject *word)
{
    Py_ssize_t length = PyUnicode_GET_LENGTH(word);
    int kind = PyUnicode_KIND(word);
    const void *data = PyUnicode_DATA(word);
    if (PyUnicode_IS_ASCII(word)) {
        for (Py_ssize_t i = 0; i < length; i++)
            if ((unsigned)((((const Py_UCS1 *)data)[i] | 32) - 'a') > 25)
                return 0;
        return length > 0;
    }
    for (Py_ssize_t i = 0; i < length; i++)
        if (!Py_UNICODE_ISALPHA(PyUnicode_READ(kind, data, i)))
            return 0;
    return length > 0;
}

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

static void WordArray_dealloc(WordArray *self)
{
    PyMem_Free(self->words);
    PyMem_Free(self->letters);
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

/* A type is known by what frees its objects, so that no state of the module is needed. */
static int is_word_array(PyObject *object)
{
    return Py_TYPE(object)->tp_dealloc == (destructor)WordArray_dealloc;
}

static WordArray *make_array(PyTypeObject *type, size_t letters)
{
    WordArray *self = (WordArray *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->letter_room = letters + 64;
    self->word_room = letters / 4 + 16;
    self->letters = PyMem_Malloc(self->letter_room);
    self->words = PyMem_Malloc(self->word_room * sizeof *self->words);
    if (!self->letters || !self->words) {
        Py_DECREF(self);
        PyErr_NoMemory();
        return NULL;
    }
    self->letters[self->size++] = ' ';
    return self;
}

/* Have room for one word more, of so many bytes. */
static int have_room(WordArray *self, size_t size)
{
    if (self->count >= MAX_ITEMS || self->size + size + 1 > MAX_BYTES) {
        PyErr_SetString(PyExc_ValueError, "too many words");
        return -1;
    }
    if (self->size + size + 1 > self->letter_room) {
        size_t room = (self->letter_room + size) * 2;
        unsigned char *larger = PyMem_Realloc(self->letters, room);
        if (!larger)
            goto no_memory;
        self->letters = larger;
        self->letter_room = room;
    }
    if (self->count == self->word_room) {
        Word *larger = PyMem_Realloc(self->words, self->word_room * 2 * sizeof *larger);
        if (!larger)
            goto no_memory;
        self->words = larger;
        self->word_room *= 2;
    }
    return 0;
no_memory:
    PyErr_NoMemory();
    return -1;
}

static void end_word(WordArray *self, size_t size, size_t characters, uint32_t hash, int sort)
{
    uint16_t shown = characters < UINT16_MAX ? (uint16_t)characters : UINT16_MAX;
    self->words[self->count++] = (Word){(uint32_t)self->size, (uint32_t)size, hash, shown, (uint8_t)sort};
    self->size += size;
    self->letters[self->size++] = ' ';
}

/* Append a word of letters, digits and signs: small letters for capitals, a letter whose high bit is set for itself, and
   special characters as they are. */
static int append_word(WordArray *self, const char *start, size_t size)
{
    if (have_room(self, size * (self->specials ? 4 : 1)) < 0)
        return -1;
    unsigned char *out = self->letters + self->size;
    uint32_t hash = HASH_BEGINS;
    size_t digits = 0, others = 0, length = 0;
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)start[i] & 0x7F;
        c = c >= 'A' && c <= 'Z' ? c + 32 : c;
        int special = c < 'a' && self->specials ? special_of((unsigned char)start[i]) : -1;
        if (special >= 0) {
            size_t wide = self->specials->sizes[special];
            memcpy(out + length, self->specials->letters[special], wide);
            for (size_t at = 0; at < wide; at++)
                hash = (hash ^ out[length + at]) * HASH_FACTOR;
            length += wide;
            others += special < SPECIAL_SIGNS;
            continue;
        }
        out[length++] = c;
        hash = (hash ^ c) * HASH_FACTOR;
        if (c < 'a') {
            digits += c >= '0' && c <= '9';
            others++;
        }
    }
    int sort = digits == size ? DIGITS : others ? MIXED : length > size ? LETTERS : ASCII_LETTERS;
    end_word(self, length, size, finish_hash(hash), sort);
    return 0;
}

static int append_words_of(WordArray *self, PyObject *words)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(words); i++) {
        PyObject *word = PyList_GET_ITEM(words, i);
        if (!PyUnicode_Check(word)) {
            PyErr_SetString(PyExc_TypeError, "words are strings");
            return -1;
        }
        if (have_room(self, room_for(word)) < 0)
            return -1;
        unsigned char *out = self->letters + self->size;
        size_t size = write_text(out, word);
        int sort = is_digit(word) ? DIGITS : !is_alpha(word) ? MIXED : PyUnicode_IS_ASCII(word) ? ASCII_LETTERS : LETTERS;
        end_word(self, size, (size_t)PyUnicode_GET_LENGTH(word), hash_bytes((const char *)out, size), sort);
    }
    return 0;
}

static PyObject *WordArray_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
    static char *keywords[] = {"names", "subject", "body", NULL};
    PyObject *names, *subject, *body;
    if (!PyArg_ParseTupleAndKeywords(args, named, "O!O!O!", keywords, &PyList_Type, &names, &PyList_Type, &subject,
                                     &PyList_Type, &body))
        return NULL;
    WordArray *self = make_array(type, (size_t)PyList_GET_SIZE(body) * 6);
    if (!self)
        return NULL;
    if (append_words_of(self, names) < 0)
        goto failed;
    self->names = self->count;
    if (append_words_of(self, subject) < 0)
        goto failed;
    self->subject = self->count - self->names;
    if (append_words_of(self, body) < 0)
        goto failed;
    return (PyObject *)self;
failed:
    Py_DECREF(self);
    return NULL;
}

/* So many words from one place on, as strings. */
static PyObject *list_words(const WordArray *self, size_t first, size_t count)
{
    PyObject *found = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; found && i < count; i++) {
        const Word *word = &self->words[first + i];
        const char *start = (const char *)self->letters + word->start;
        PyObject *made = PyUnicode_DecodeUTF8(start, (Py_ssize_t)word->size, "surrogatepass");
        if (made)
            PyList_SET_ITEM(found, (Py_ssize_t)i, made);
        else
            Py_CLEAR(found);
    }
    return found;
}

static PyObject *WordArray_names(WordArray *self, void *closure)
{
    (void)closure;
    return list_words(self, 0, self->names);
}

static PyObject *WordArray_subject(WordArray *self, void *closure)
{
    (void)closure;
    return list_words(self, self->names, self->subject);
}

static PyObject *WordArray_body(WordArray *self, void *closure)
{
    (void)closure;
    return list_words(self, self->names + self->subject, self->count - self->names - self->subject);
}

static PyObject *WordArray_total(WordArray *self, void *closure)
{
    (void)closure;
    return PyLong_FromSize_t(self->count);
}

/* How many words the body has. */
static Py_ssize_t WordArray_length(PyObject *self)
{
    const WordArray *array = (const WordArray *)self;
    return (Py_ssize_t)(array->count - array->names - array->subject);
}
