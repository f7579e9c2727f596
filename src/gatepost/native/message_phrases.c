/* All places of phrases in a text, and in the texts of a message at once. Part of `_speedups.c`. */

/* ---------------------------------------------------------------- all places of a text */

typedef struct {
    size_t end, start, first, stop;
    int32_t word;
} Found;

/* In the order in which Aho and Corasick's search ends, then in that of the words. */
static int compare_found(const void *one, const void *other)
{
    const Found *a = one, *b = other;
    if (a->end != b->end)
        return a->end < b->end ? -1 : 1;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    return a->word < b->word ? -1 : a->word > b->word;
}

/* The places found so far. */
typedef struct {
    Found *items;
    size_t count, room;
} FoundList;

/* A place that begins like a phrase: its first eight bytes, the chain of words, and how many of the bytes are alike. */
typedef struct {
    size_t at;
    uint64_t prefix;
    uint32_t chain;
    int level;
} Candidate;

/* Append what stands at one place; -1 where memory ran out. */
static int look_at(const PhraseIndex *self, const unsigned char *text, size_t length, const Candidate *place,
                   FoundList *found)
{
    size_t at = place->at;
    for (uint32_t i = self->heads[place->chain]; i < self->heads[place->chain + 1]; i++) {
        const PhraseWord *word = &self->words[i];
        if (word->first != cut_prefix(place->prefix, word->size) || level_of(word->size) != place->level
            || word->size > length - at)
            continue;
        if (word->size > 8 && memcmp(text + at + 8, self->letters + word->start + 8, (size_t)word->size - 8))
            continue;
        size_t end = at + word->size, first = at + word->skip, stop = end;
        if (!stands_at(self, word, text, length, &first, &stop))
            continue;
        if (found->count == found->room) {
            size_t more = found->room ? found->room * 2 : 64;
            Found *larger = more > MAX_ITEMS ? NULL : PyMem_Realloc(found->items, more * sizeof *found->items);
            if (!larger)
                return -1;
            found->items = larger;
            found->room = more;
        }
        found->items[found->count++] = (Found){end, at, first, stop, (int32_t)i};
    }
    return 0;
}

/* Up to eight bytes of a text from a place on, and zeros behind its end: no phrase is longer than what is left. */
static uint64_t read_prefix(const unsigned char *text, size_t length, size_t at)
{
    return length - at >= 8 ? eight_of(text + at) : prefix_of(text + at, length - at);
}

#define BLOCK 256

/* Which of the places from `start` to `end` a phrase may begin at: those that do not stand inside of a word of ASCII, and
   of the others those whose first three bytes are those of words which may stand there. No branch that a processor would
   guess wrong. */
static int choose_places(const PhraseIndex *self, const unsigned char *text, size_t length, size_t start, size_t end,
                         uint32_t *places)
{
    int count = 0, is_after_letter = start > 0 && is_word_character(text[start - 1]);
    for (size_t at = start; at < end; at++) {
        int is_letter = is_word_character(text[at]);
        uint64_t prefix = read_prefix(text, length, at) & 0xFFFFFF;
        places[count] = (uint32_t)at;
        count += !(is_after_letter & is_letter) | has_bit(self->inside, hash_prefix(prefix));
        is_after_letter = is_letter;
    }
    return count;
}

/* Choose of several places, and of the numbers of their first bytes, those with which a phrase may begin. */
static int choose_beginnings(const PhraseIndex *self, const unsigned char *text, size_t length, const uint32_t *places,
                             int count, uint16_t *chosen)
{
    int known = 0;
    for (int i = 0; i < count; i++) {
        uint64_t prefix = read_prefix(text, length, places[i]);
        const uint64_t mixed[PHRASE_LEVELS] = {mix_prefix(prefix & 0xFFFFFF), mix_prefix(prefix & 0xFFFFFFFFFF),
                                               mix_prefix(prefix & 0xFFFFFFFFFFFF), mix_prefix(prefix)};
        for (int level = 0; level < PHRASE_LEVELS; level++) {
            uint64_t bits = seen_bits_of(mixed[level]);
            chosen[known] = (uint16_t)(i * PHRASE_LEVELS + level);
            known += (self->seen[seen_word_of(mixed[level])] & bits) == bits;
        }
    }
    return known;
}

/* Look at several places at once: what they are compared with is fetched for all of them before the first. */
static int look_at_places(const PhraseIndex *self, const unsigned char *text, size_t length, const uint32_t *places,
                          int count, FoundList *found)
{
    uint16_t chosen[BLOCK * PHRASE_LEVELS + 1];
    uint32_t chains[BLOCK * PHRASE_LEVELS];
    int known = choose_beginnings(self, text, length, places, count, chosen);
    for (int i = 0; i < known; i++) {
        uint64_t prefix = read_prefix(text, length, places[chosen[i] / PHRASE_LEVELS]);
        uint64_t mixed = mix_prefix(cut_prefix(prefix, PREFIXES[chosen[i] % PHRASE_LEVELS]));
        chains[i] = chain_of(mixed, self->mask);
        __builtin_prefetch(&self->words[self->heads[chains[i]]]);
    }
    for (int i = 0; i < known; i++) {
        size_t at = places[chosen[i] / PHRASE_LEVELS];
        Candidate place = {at, read_prefix(text, length, at), chains[i], chosen[i] % PHRASE_LEVELS};
        if (look_at(self, text, length, &place, found) < 0)
            return -1;
    }
    return 0;
}

/* Look at every place of a text; -1 where memory ran out. Few places begin like a phrase. */
static int search_text(const PhraseIndex *self, const unsigned char *text, size_t length, FoundList *found)
{
    uint32_t places[BLOCK];
    for (size_t start = 0; start < length; start += BLOCK) {
        size_t end = length - start > BLOCK ? start + BLOCK : length;
        int count = choose_places(self, text, length, start, end, places);
        if (look_at_places(self, text, length, places, count, found) < 0)
            return -1;
    }
    return 0;
}

/* Turn places in UTF-8 into places of characters. `counts` has, for each 64 bytes, how many characters begin before. */
static size_t count_characters(const unsigned char *text, const uint32_t *counts, size_t at)
{
    size_t count = counts[at / 64];
    for (size_t i = at / 64 * 64; i < at; i++)
        count += !is_continuation(text[i]);
    return count;
}

static int place_in_characters(const unsigned char *text, size_t length, FoundList *found)
{
    uint32_t *counts = PyMem_Malloc((length / 64 + 1) * sizeof *counts), count = 0;
    if (!counts)
        return -1;
    for (size_t i = 0; i <= length; i++) {
        if (i % 64 == 0)
            counts[i / 64] = count;
        count += i < length && !is_continuation(text[i]);
    }
    for (size_t i = 0; i < found->count; i++) {
        found->items[i].first = count_characters(text, counts, found->items[i].first);
        found->items[i].stop = count_characters(text, counts, found->items[i].stop);
    }
    PyMem_Free(counts);
    return 0;
}

static PyObject *PhraseIndex_find(PhraseIndex *self, PyObject *text)
{
    if (!PyUnicode_Check(text)) {
        PyErr_SetString(PyExc_TypeError, "the text must be a str");
        return NULL;
    }
    size_t length = (size_t)PyUnicode_GET_LENGTH(text);
    unsigned char *copy = NULL;
    if (length > MAX_BYTES)
        return PyErr_NoMemory();
    if (!PyUnicode_IS_ASCII(text)) {
        copy = length > MAX_ITEMS ? NULL : PyMem_Malloc(room_for(text) + 1);
        if (!copy)
            return PyErr_NoMemory();
        length = write_text(copy, text);
    }
    const unsigned char *bytes = copy ? copy : PyUnicode_1BYTE_DATA(text);
    FoundList found = {NULL, 0, 0};
    int failed = search_text(self, bytes, length, &found);
    if (!failed && found.count > 1)
        qsort(found.items, found.count, sizeof *found.items, compare_found);
    if (!failed && copy && found.count)
        failed = place_in_characters(copy, length, &found);
    PyMem_Free(copy);
    if (failed) {
        PyMem_Free(found.items);
        return PyErr_NoMemory();
    }
    PyObject *result = PyList_New((Py_ssize_t)found.count);
    for (size_t i = 0; result && i < found.count; i++) {
        const Found *place = &found.items[i];
        PyObject *each = Py_BuildValue("(inn)", self->words[place->word].phrase, (Py_ssize_t)place->first,
                                       (Py_ssize_t)place->stop);
        if (!each) {
            Py_CLEAR(result);
            break;
        }
        PyList_SET_ITEM(result, (Py_ssize_t)i, each);
    }
    PyMem_Free(found.items);
    return result;
}

/* ---------------------------------------------------------------- the texts of a message, folded behind each other */

/* As `MAX_SUBJECT` of `names`, and `MAX_TEXTS` and `MAX_CHARS` of `checks.phrases` say. */
#define MOST_OF_SUBJECT 1000
#define MOST_TEXTS 6
#define MOST_CHARACTERS 60000
#define MOST_BLANKS_OF_QUOTE 4

/* What folds: a table for each character (see `transliterate`), and a function for what the table does not know. */
typedef struct {
    const Py_UCS2 *table;
    PyObject *longer, *fold;
} Folder;

/* One text among the folded ones: its bytes, and how many characters they are. */
typedef struct {
    size_t start, size;
    Py_ssize_t length;
} Piece;

/* All that was folded, in UTF-8. `wide` has the bits of all characters, `piece` is where the last text begins. */
typedef struct {
    unsigned char *bytes;
    size_t size, room, piece;
    Py_UCS4 wide;
    int has_blank;
    Piece subject, own[MOST_TEXTS], documents[MOST_TEXTS];
    int own_count, document_count;
} Folded;

static int reserve(Folded *folded, size_t size)
{
    if (size <= folded->room - folded->size)
        return 0;
    size_t more = folded->size + size + folded->room / 2;
    unsigned char *larger = more > MAX_BYTES ? NULL : PyMem_Realloc(folded->bytes, more);
    if (!larger) {
        PyErr_NoMemory();
        return -1;
    }
    folded->bytes = larger;
    folded->room = more;
    return 0;
}

static void add_plain(Folded *folded, const char *text)
{
    size_t size = strlen(text);
    memcpy(folded->bytes + folded->size, text, size);
    folded->size += size;
}

/* Append ASCII text: small letters, runs of blanks as one, none at the ends, `email` for `e-mail`. */
static void add_ascii_run(Folded *folded, const unsigned char *text, size_t length)
{
    unsigned char *first = folded->bytes + folded->piece, *out = folded->bytes + folded->size;
    int has_blank = folded->has_blank;
    for (size_t i = 0; i < length; i++) {
        unsigned char c = text[i];
        if (c <= ' ' && is_blank(c)) {
            has_blank = out > first;
            continue;
        }
        if (has_blank)
            *out++ = ' ';
        has_blank = 0;
        *out++ = small(c);
        if (out[-1] == 'l' && out - first >= 6 && !memcmp(out - 6, "e-mail", 6)) {
            memcpy(out - 6, "email", 5);
            out--;
        }
    }
    folded->size = (size_t)(out - folded->bytes);
    folded->has_blank = has_blank;
}

static void add_folded(Folded *folded, Py_UCS4 c)
{
    if (c < 0x80) {
        const unsigned char plain = (unsigned char)c;
        add_ascii_run(folded, &plain, 1);
    } else if (Py_UNICODE_ISSPACE(c)) {
        folded->has_blank = folded->size > folded->piece;
    } else {
        if (folded->has_blank)
            folded->bytes[folded->size++] = ' ';
        folded->has_blank = 0;
        folded->size += write_character(folded->bytes + folded->size, c);
        folded->wide |= c;
    }
}

/* Append a character as the table says; -1 where it does not know it. */
static int add_by_table(Folded *folded, const Folder *folder, Py_UCS4 c)
{
    Py_UCS2 known = c < 65536 ? folder->table[c] : UNKNOWN_CHARACTER;
    if (known == UNKNOWN_CHARACTER)
        return -1;
    if (known < FIRST_LONGER || known >= LAST_LONGER) {
        add_folded(folded, known);
        return 0;
    }
    Py_ssize_t number = known - FIRST_LONGER;
    PyObject *more = number < PyTuple_GET_SIZE(folder->longer) ? PyTuple_GET_ITEM(folder->longer, number) : NULL;
    Py_ssize_t count = more && PyUnicode_Check(more) ? PyUnicode_GET_LENGTH(more) : 0;
    for (Py_ssize_t i = 0; i < count && i < LONGEST_REPLACED; i++)
        add_folded(folded, (Py_UCS2)PyUnicode_READ_CHAR(more, i));
    return 0;
}

/* Append the characters between two places of a text, which there is room for; -1 where the table does not know one. */
static int add_characters(Folded *folded, const Folder *folder, PyObject *text, Py_ssize_t at, Py_ssize_t end)
{
    if (PyUnicode_IS_ASCII(text)) {
        add_ascii_run(folded, PyUnicode_1BYTE_DATA(text) + at, (size_t)(end - at));
        return 0;
    }
    int kind = PyUnicode_KIND(text);
    const void *data = PyUnicode_DATA(text);
    for (; at < end; at++)
        if (add_by_table(folded, folder, PyUnicode_READ(kind, data, at)) < 0)
            return -1;
    return 0;
}

/* Where a line that begins at a place goes on behind its mark of a quote: up to four blanks, then `>` or `|`. */
static Py_ssize_t skip_quote_mark(PyObject *text, Py_ssize_t start, Py_ssize_t end)
{
    Py_ssize_t at = start;
    Py_UCS4 c = 0;
    for (; at < end && at - start <= MOST_BLANKS_OF_QUOTE; at++) {
        c = PyUnicode_READ_CHAR(text, at);
        if (c != ' ' && c != '\t')
            break;
    }
    return at < end && at - start <= MOST_BLANKS_OF_QUOTE && (c == '>' || c == '|') ? at + 1 : start;
}

/* Where the next line begins, or the end. */
static Py_ssize_t find_next_line(PyObject *text, Py_ssize_t at, Py_ssize_t end)
{
    Py_ssize_t found = at < end ? PyUnicode_FindChar(text, '\n', at, end, 1) : -1;
    return found < 0 ? end : found + 1;
}

/* Whether a text quotes another one: it begins with a mark of a quote, or a line does with `>`. */
static int has_quotes(PyObject *text, Py_ssize_t end)
{
    Py_UCS4 first = end ? PyUnicode_READ_CHAR(text, 0) : 0;
    if (first == '>' || first == '|')
        return 1;
    for (Py_ssize_t at = find_next_line(text, 0, end); at < end; at = find_next_line(text, at, end))
        if (PyUnicode_READ_CHAR(text, at) == '>')
            return 1;
    return 0;
}

/* Append so many characters of a text natively: how many of them are no marks of quotes, or -1 where it takes more. */
static Py_ssize_t add_known(Folded *folded, const Folder *folder, PyObject *text, Py_ssize_t end, int can_quote)
{
    if (!can_quote || !has_quotes(text, end))
        return add_characters(folded, folder, text, 0, end) < 0 ? -1 : end;
    Py_ssize_t kept = 0;
    for (Py_ssize_t at = 0; at < end;) {
        Py_ssize_t start = skip_quote_mark(text, at, end);
        at = find_next_line(text, start, end);
        if (add_characters(folded, folder, text, start, at) < 0)
            return -1;
        kept += at - start;
    }
    return kept;
}

/* Append what Python makes of the beginning of a text: (folded, how many characters are no marks of quotes). */
static Py_ssize_t add_by_python(Folded *folded, const Folder *folder, PyObject *text, Py_ssize_t most, int can_quote)
{
    PyObject *more, *made = PyObject_CallFunction(folder->fold, "OnO", text, most, can_quote ? Py_True : Py_False);
    Py_ssize_t kept = -1;
    if (made && !PyTuple_Check(made))
        PyErr_SetString(PyExc_TypeError, "a folded text comes with its length");
    else if (made && PyArg_ParseTuple(made, "Un", &more, &kept)) {
        if (kept < 0 || PyUnicode_GET_LENGTH(more) > MAX_ITEMS || reserve(folded, room_for(more) + 8) < 0)
            kept = -1;
        else
            folded->size += write_text(folded->bytes + folded->size, more);
        folded->wide |= PyUnicode_MAX_CHAR_VALUE(more);
    }
    if (kept < 0 && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "a folded text is too long");
    Py_XDECREF(made);
    return kept;
}

static Py_ssize_t count_all_characters(const unsigned char *text, size_t size)
{
    Py_ssize_t count = 0;
    for (size_t i = 0; i < size; i++)
        count += !is_continuation(text[i]);
    return count;
}

/* Append the beginning of a text; how many of its characters are no marks of quotes, or -1 for an error. */
static Py_ssize_t fold_piece(Folded *folded, const Folder *folder, PyObject *text, Py_ssize_t most, int can_quote,
                             Piece *piece)
{
    Py_ssize_t end = PyUnicode_GET_LENGTH(text) < most ? PyUnicode_GET_LENGTH(text) : most;
    size_t widest = PyUnicode_IS_ASCII(text) ? 1 : 3 * LONGEST_REPLACED;
    if (reserve(folded, (size_t)end * widest + 8) < 0)
        return -1;
    size_t start = folded->piece = folded->size;
    Py_UCS4 wide = folded->wide;
    folded->has_blank = 0;
    folded->wide = 0;
    Py_ssize_t kept = add_known(folded, folder, text, end, can_quote);
    if (kept < 0) {
        folded->size = start;
        folded->wide = 0;
        kept = add_by_python(folded, folder, text, most, can_quote);
    }
    size_t size = folded->size - start;
    Py_ssize_t length = folded->wide < 0x80 ? (Py_ssize_t)size : count_all_characters(folded->bytes + start, size);
    *piece = (Piece){start, size, length};
    folded->wide |= wide;
    return kept;
}

static PyObject *form_attribute, *visible_attribute, *hidden_attribute, *attached_attribute;

static int intern_text_attributes(void)
{
    form_attribute = PyUnicode_InternFromString("form");
    visible_attribute = PyUnicode_InternFromString("visible");
    hidden_attribute = PyUnicode_InternFromString("hidden");
    attached_attribute = PyUnicode_InternFromString("attached");
    return form_attribute && visible_attribute && hidden_attribute && attached_attribute ? 0 : -1;
}

/* A new reference to an attribute that is a string; NULL for an error. */
static PyObject *read_string(PyObject *object, PyObject *name)
{
    PyObject *found = PyObject_GetAttr(object, name);
    if (found && !PyUnicode_Check(found)) {
        PyErr_SetString(PyExc_TypeError, "forms and texts are strings");
        Py_CLEAR(found);
    }
    return found;
}

/* Whether a text is one of a document; -1 for an error. */
static int is_document(PyObject *text)
{
    PyObject *form = read_string(text, form_attribute);
    int found = form ? PyUnicode_CompareWithASCIIString(form, "document") == 0 : -1;
    Py_XDECREF(form);
    return found;
}

/* Whether the last of some pieces repeats one before it, byte for byte. */
static int is_repeated(const Folded *folded, const Piece *pieces, int last)
{
    for (int i = 0; i < last; i++)
        if (pieces[i].size == pieces[last].size
            && !memcmp(folded->bytes + pieces[i].start, folded->bytes + pieces[last].start, pieces[i].size))
            return 1;
    return 0;
}

/* Append the mail's own texts, or those of documents, as `_fold_texts` does; -1 for an error. */
static int fold_texts(Folded *folded, const Folder *folder, PyObject *texts, int of_documents, Piece *pieces, int *count)
{
    Py_ssize_t room = MOST_CHARACTERS;
    for (Py_ssize_t i = 0, taken = 0; i < PyTuple_GET_SIZE(texts) && taken < MOST_TEXTS && room > 0; i++) {
        int is_one = is_document(PyTuple_GET_ITEM(texts, i));
        if (is_one < 0)
            return -1;
        if (is_one != of_documents)
            continue;
        taken++;
        PyObject *visible = read_string(PyTuple_GET_ITEM(texts, i), visible_attribute);
        if (!visible || reserve(folded, 8) < 0) {
            Py_XDECREF(visible);
            return -1;
        }
        size_t before = folded->size;
        if (folded->own_count + folded->document_count)
            folded->bytes[folded->size++] = ' ';
        Py_ssize_t kept = fold_piece(folded, folder, visible, room, 1, &pieces[*count]);
        Py_DECREF(visible);
        if (kept < 0)
            return -1;
        room -= kept;
        if (is_repeated(folded, pieces, *count))
            folded->size = before;
        else
            (*count)++;
    }
    return 0;
}

/* Fold a message's subject and texts: ` subject \n text text `; -1 for an error. */
static int fold_message(Folded *folded, const Folder *folder, PyObject *subject, PyObject *texts)
{
    if (reserve(folded, 8) < 0)
        return -1;
    add_plain(folded, " ");
    if (fold_piece(folded, folder, subject, MOST_OF_SUBJECT, 0, &folded->subject) < 0 || reserve(folded, 8) < 0)
        return -1;
    add_plain(folded, " \n ");
    if (fold_texts(folded, folder, texts, 0, folded->own, &folded->own_count) < 0
        || fold_texts(folded, folder, texts, 1, folded->documents, &folded->document_count) < 0 || reserve(folded, 8) < 0)
        return -1;
    add_plain(folded, " ");
    return 0;
}

/* Bytes of UTF-8 as a string; `wide` has the bits of all their characters. */
static PyObject *make_string(const unsigned char *bytes, size_t size, Py_UCS4 wide)
{
    if (wide < 0x80) {
        PyObject *plain = PyUnicode_New((Py_ssize_t)size, 127);
        if (plain)
            memcpy(PyUnicode_1BYTE_DATA(plain), bytes, size);
        return plain;
    }
    PyObject *made = PyUnicode_New(count_all_characters(bytes, size), wide > 0xFFFF ? 0x10FFFF : wide);
    if (!made)
        return NULL;
    int kind = PyUnicode_KIND(made);
    void *data = PyUnicode_DATA(made);
    Py_ssize_t place = 0;
    for (size_t at = 0; at < size; at += size_of_character(bytes[at]), place++)
        PyUnicode_WRITE(kind, data, place, character_at(bytes + at));
    return made;
}

/* ---------------------------------------------------------------- the signs of a message's texts */

enum { WALLET = 16 };

/* The signs of one text of a message, which is shown; -1 for an error. */
static int look_at_text(PyObject *text)
{
    PyObject *attached = PyObject_GetAttr(text, attached_attribute);
    int is_attached = attached ? PyObject_IsTrue(attached) : -1;
    Py_XDECREF(attached);
    if (is_attached)
        return is_attached < 0 ? -1 : 0;
    PyObject *visible = read_string(text, visible_attribute);
    PyObject *hidden = visible ? read_string(text, hidden_attribute) : NULL;
    int found = hidden ? look_at_shown(visible) : -1;
    if (found >= 0)
        found |= look_at_hidden(hidden);
    Py_XDECREF(visible);
    Py_XDECREF(hidden);
    return found;
}

/* The signs of all texts, as `find_text_signs` of `checks.triggers` has them, and whether a wallet is named. */
static int look_at_texts(const Folded *folded, PyObject *text, PyObject *subject, PyObject *texts)
{
    int found = look_at_folded(text);
    for (Py_ssize_t i = 0; found >= 0 && i < PyTuple_GET_SIZE(texts) && i < MOST_TEXTS; i++) {
        int more = look_at_text(PyTuple_GET_ITEM(texts, i));
        found = more < 0 ? -1 : found | more;
    }
    if (found < 0)
        return -1;
    return found | look_at_subject(subject) | (memmem(folded->bytes, folded->size, "wallet", 6) ? WALLET : 0);
}

/* ---------------------------------------------------------------- what was found, by theme */

/* In the order in which phrases begin, then in that in which the search ends. */
static int compare_starts(const void *one, const void *other)
{
    const Found *a = one, *b = other;
    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    return compare_found(one, other);
}

/* The words of a phrase as they stand in the text, without blanks at the ends. */
static PyObject *cut_words(PyObject *text, Py_ssize_t start, Py_ssize_t end)
{
    int kind = PyUnicode_KIND(text);
    const void *data = PyUnicode_DATA(text);
    while (start < end && Py_UNICODE_ISSPACE(PyUnicode_READ(kind, data, start)))
        start++;
    while (start < end && Py_UNICODE_ISSPACE(PyUnicode_READ(kind, data, end - 1)))
        end--;
    return PyUnicode_Substring(text, start, end);
}

/* Set the value of a key that has none, and give the new object away; a borrowed reference, or NULL for an error. */
static PyObject *set_first(PyObject *dict, PyObject *key, PyObject *made)
{
    PyObject *found = made ? PyDict_SetDefault(dict, key, made) : NULL;
    Py_XDECREF(made);
    return found;
}

/* Results as `Phrases` has them, and for a message with documents where each phrase begins and its words. */
typedef struct {
    PyObject *themes, *in_subject, *places, *cues;
} Gathered;

static int add_cue(PyObject *cues, size_t start, PyObject *words)
{
    PyObject *cue = Py_BuildValue("(nO)", (Py_ssize_t)start, words);
    int failed = !cue || PyList_Append(cues, cue) < 0;
    Py_XDECREF(cue);
    return failed ? -1 : 0;
}

/* Add one phrase to those of its theme; -1 for an error. */
static int gather_one(const Gathered *gathered, PyObject *theme, PyObject *text, const Found *found, Py_ssize_t subject)
{
    PyObject *words = cut_words(text, (Py_ssize_t)found->first, (Py_ssize_t)found->stop);
    PyObject *known = words ? PyDict_GetItemWithError(gathered->themes, theme) : NULL;
    if (words && !known && !PyErr_Occurred())
        known = set_first(gathered->themes, theme, PyDict_New());
    int failed = !known || PyDict_SetItem(known, words, Py_None) < 0
        || (gathered->cues && add_cue(gathered->cues, found->first, words) < 0);
    Py_XDECREF(words);
    if (failed)
        return -1;
    if ((Py_ssize_t)found->first <= subject)
        return PySet_Add(gathered->in_subject, theme);
    PyObject *places = PyDict_GetItemWithError(gathered->places, theme);
    if (!places && !PyErr_Occurred())
        places = set_first(gathered->places, theme, PyList_New(0));
    PyObject *place = places ? PyLong_FromSize_t(found->first) : NULL;
    failed = !place || PyList_Append(places, place) < 0;
    Py_XDECREF(place);
    return failed ? -1 : 0;
}

/* Gather all phrases in the order in which they begin, those of a theme each once; -1 for an error. */
static int gather(const PhraseIndex *self, const FoundList *found, PyObject *names, PyObject *text, Py_ssize_t subject,
                  const Gathered *gathered)
{
    if (!gathered->themes || !gathered->in_subject || !gathered->places)
        return -1;
    for (size_t i = 0; i < found->count; i++) {
        int32_t number = self->words[found->items[i].word].phrase;
        PyObject *theme = number < PyList_GET_SIZE(names) ? PyList_GET_ITEM(names, number) : NULL;
        if (!theme || !PyUnicode_Check(theme)) {
            PyErr_SetString(PyExc_ValueError, "each phrase has a theme");
            return -1;
        }
        if (gather_one(gathered, theme, text, &found->items[i], subject) < 0)
            return -1;
    }
    PyObject *theme, *words;
    for (Py_ssize_t at = 0; PyDict_Next(gathered->themes, &at, &theme, &words);) {
        PyObject *each = PySequence_Tuple(words);
        int failed = !each || PyDict_SetItem(gathered->themes, theme, each) < 0;
        Py_XDECREF(each);
        if (failed)
            return -1;
    }
    return 0;
}

/* The lengths of pieces, in characters. */
static PyObject *list_lengths(const Piece *pieces, int count)
{
    PyObject *found = PyList_New(count);
    for (int i = 0; found && i < count; i++) {
        PyObject *length = PyLong_FromSsize_t(pieces[i].length);
        if (!length)
            Py_CLEAR(found);
        else
            PyList_SET_ITEM(found, i, length);
    }
    return found;
}

/* Search what was folded, and make the result of it. */
static PyObject *search_folded(const PhraseIndex *self, const Folded *folded, PyObject *names, PyObject *subject,
                               PyObject *texts)
{
    PyObject *text = make_string(folded->bytes, folded->size, folded->wide);
    int signs = text ? look_at_texts(folded, text, subject, texts) : -1;
    if (signs < 0) {
        Py_XDECREF(text);
        return NULL;
    }
    FoundList found = {NULL, 0, 0};
    Gathered gathered = {PyDict_New(), PyFrozenSet_New(NULL), PyDict_New(), NULL};
    PyObject *own = list_lengths(folded->own, folded->own_count), *result = NULL;
    PyObject *documents = list_lengths(folded->documents, folded->document_count);
    if (folded->document_count)
        gathered.cues = PyList_New(0);
    int failed = search_text(self, folded->bytes, folded->size, &found);
    if (!failed && found.count > 1)
        qsort(found.items, found.count, sizeof *found.items, compare_starts);
    if (!failed && folded->wide >= 0x80 && found.count)
        failed = place_in_characters(folded->bytes, folded->size, &found);
    if (failed)
        PyErr_NoMemory();
    else if (own && documents && (gathered.cues || !folded->document_count)
             && gather(self, &found, names, text, folded->subject.length, &gathered) == 0)
        result = Py_BuildValue("(OnOOOOOOi)", text, folded->subject.length, own, documents,
                               gathered.cues ? gathered.cues : Py_None, gathered.themes, gathered.in_subject,
                               gathered.places, signs);
    PyObject *parts[] = {text, own, documents, gathered.themes, gathered.in_subject, gathered.places, gathered.cues};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        Py_XDECREF(parts[i]);
    PyMem_Free(found.items);
    return result;
}

/* search_message(names, subject, texts, table, longer, fold): the phrases of a message in one call. `names` has the theme
   of each phrase; `fold(text, most, can_quote)` folds what the table does not know. */
static PyObject *PhraseIndex_search_message(PhraseIndex *self, PyObject *args)
{
    PyObject *names, *subject, *texts, *table, *longer, *fold;
    if (!PyArg_ParseTuple(args, "O!UO!UO!O", &PyList_Type, &names, &subject, &PyTuple_Type, &texts, &table, &PyTuple_Type,
                          &longer, &fold))
        return NULL;
    if (PyUnicode_KIND(table) != PyUnicode_2BYTE_KIND || PyUnicode_GET_LENGTH(table) != 65536) {
        PyErr_SetString(PyExc_ValueError, "a table has 65,536 characters of two bytes");
        return NULL;
    }
    const Folder folder = {PyUnicode_2BYTE_DATA(table), longer, fold};
    Folded folded = {0};
    PyObject *result = NULL;
    if (fold_message(&folded, &folder, subject, texts) == 0)
        result = search_folded(self, &folded, names, subject, texts);
    PyMem_Free(folded.bytes);
    return result;
}
