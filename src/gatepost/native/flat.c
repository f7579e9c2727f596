/* Ordinary messages: one pass from their bytes to their parts. Part of `_speedups.c`.

What is read here is what reads in one way only: header sections of plain fields, multiparts whose delimiters come in
their order and are all there, bodies that are encoded as they say. Whatever else there is (`NOT_ORDINARY`), however
small, leaves the whole message to `mail.reader.MessageParts`, which is the twin of this file: it reads any bytes, and
gives the same parts for those that are read here. Spans of the source are kept until the whole tree is known to be
ordinary; only then contents and parts are made. */

#define MAX_ORDINARY (1 << 20)
#define MAX_SECTION 65536
#define MAX_NODES 64
#define MAX_OPEN 8
#define MAX_DASHES 5000
#define MAX_ALL_FIELDS 1000
#define MAX_ENCODED_WORDS 500
#define MAX_BOUNDARY 200
#define MAX_KEYS 8
#define MAX_TEXT_LEAF 100000
#define MAX_KNOWN_FIELDS 200
#define MAX_OCCURRENCES 500
#define FOUND_DELIMITER 20

enum { ORDINARY = 0, NOT_ORDINARY = 1, FAILED = -1 };
enum { CONTENT_TYPE, CONTENT_ENCODING, CONTENT_DISPOSITION, CONTENT_FIELDS };

/* What `describe` says of a leaf: a tuple of the kind, charset, disposition, names, encoding, the entity, and whether
   it is a text without a name. */
enum { LEAF_KIND, LEAF_CHARSET, LEAF_DISPOSITION, LEAF_NAMES, LEAF_ENCODING, LEAF_ENTITY, LEAF_IS_TEXT, LEAF_SIZE };

/* One entity: where its header section and its body lie. `described` is of a leaf; `kind`, `charset`, `boundary` and
   the two spans outside of its parts are of a multipart. */
typedef struct {
    size_t head, start, end, preamble_end, epilogue, epilogue_end;
    int parent, children, last_child;
    int is_multipart;
    Slice boundary;
    PyObject *path, *headers, *kind, *charset, *described, *part;
} FlatNode;

typedef struct {
    PyObject *make_field, *make_headers, *make_part, *decode, *known, *describe, *read_leaf;
} FlatTools;

typedef struct {
    const unsigned char *bytes;
    size_t length, fields, dashes, delimiters, decoded;
    FlatTools tools;
    FlatNode nodes[MAX_NODES];
    int count, open[MAX_OPEN], opened, ended;
} Flat;

static PyObject *value_attribute, *content_attribute;

static int intern_flat_attributes(void)
{
    if (!value_attribute)
        value_attribute = PyUnicode_InternFromString("value");
    if (!content_attribute)
        content_attribute = PyUnicode_InternFromString("content");
    return value_attribute && content_attribute ? 0 : -1;
}

/* ---------------------------------------------------------------- header sections */

static int small_letter(int c)
{
    return c >= 'A' && c <= 'Z' ? c + 32 : c;
}

/* Which of the fields that describe a body begins here; -1 for none. */
static int content_field(const unsigned char *name, size_t size)
{
    static const char *names[CONTENT_FIELDS] = {"content-type", "content-transfer-encoding", "content-disposition"};
    for (int which = 0; which < CONTENT_FIELDS; which++) {
        size_t same = 0;
        if (strlen(names[which]) != size)
            continue;
        while (same < size && small_letter(name[same]) == names[which][same])
            same++;
        if (same == size)
            return which;
    }
    return -1;
}

/* Make the fields of a section, and find those that describe its body (borrowed from the fields, as they are read). */
static int take_fields(Flat *flat, size_t at, const Section *found, PyObject *fields, PyObject **content)
{
    const unsigned char *bytes = flat->bytes;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(fields); i++) {
        size_t until = at, name = at;
        int lines = 0;
        do {
            until = (size_t)((const unsigned char *)memchr(bytes + until, '\n', found->end - until) - bytes) + 1;
            lines++;
        } while (until < found->end && is_fold(bytes[until]));
        PyObject *field = make_field(bytes, at, until, lines > 1, flat->tools.make_field, flat->tools.decode);
        if (!field)
            return FAILED;
        PyTuple_SET_ITEM(fields, i, field);
        while (bytes[name] > 32 && bytes[name] != ':')
            name++;
        int which = (bytes[at] | 32) == 'c' ? content_field(bytes + at, name - at) : -1;
        if (which >= 0) {
            if (content[which] || memmem(bytes + at, until - at, "=?", 2))
                return NOT_ORDINARY;
            content[which] = PyObject_GetAttr(field, value_attribute);
            if (!content[which])
                return FAILED;
            if (!PyUnicode_Check(content[which]) || !PyUnicode_IS_ASCII(content[which]))
                return NOT_ORDINARY;
        }
        at = until;
    }
    return ORDINARY;
}

/* Read the section at `node->head`: its fields, and where the body begins. */
static int read_header(Flat *flat, FlatNode *node, PyObject **content)
{
    const unsigned char *bytes = flat->bytes;
    size_t start = node->head, limit = flat->length - start > MAX_SECTION ? start + MAX_SECTION : flat->length;
    Section found = {0};
    size_t empty = start < limit && bytes[start] == '\n' ? 1 : 0, words = 0;
    if (start + 1 < limit && bytes[start] == '\r' && bytes[start + 1] == '\n')
        empty = 2;
    if (node->parent >= 0 && empty) {
        node->start = start + empty;
    } else {
        if (scan_section(bytes, start, limit, &found) < 0 || found.cr != found.crlf
            || (found.crlf && found.lf != found.crlf) || found.fields > MAX_ALL_FIELDS - flat->fields)
            return NOT_ORDINARY;
        node->start = found.body;
        const unsigned char *at = bytes + start, *end = bytes + found.end;
        for (; (at = memmem(at, (size_t)(end - at), "=?", 2)); at += 2)
            if (++words > MAX_ENCODED_WORDS)
                return NOT_ORDINARY;
    }
    flat->fields += found.fields;
    PyObject *fields = PyTuple_New((Py_ssize_t)found.fields);
    int result = fields ? take_fields(flat, start, &found, fields, content) : FAILED;
    if (result == ORDINARY) {
        node->headers = PyObject_CallOneArg(flat->tools.make_headers, fields);
        result = node->headers ? ORDINARY : FAILED;
    }
    Py_XDECREF(fields);
    return result;
}

/* ---------------------------------------------------------------- what a body is */

static int is_same_in_any_case(Slice text, const char *other)
{
    size_t size = strlen(other);
    if (text.size != size)
        return 0;
    for (size_t i = 0; i < size; i++)
        if (small_letter(text.start[i]) != other[i])
            return 0;
    return 1;
}

static int is_token(char c)
{
    return c > 32 && c < 127 && !strchr(";=()<>@,\\\"[]?", c);
}

static int is_key(char c)
{
    int small = small_letter(c);
    return (small >= 'a' && small <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
}

static size_t skip_folds(Slice text, size_t at)
{
    while (at < text.size && is_fold((unsigned char)text.start[at]))
        at++;
    return at;
}

/* One `key=value` from `*at` on, in quotes or without. */
static int take_pair(Slice text, size_t *at, Slice *key, Slice *value)
{
    size_t start = *at;
    while (*at < text.size && is_key(text.start[*at]))
        (*at)++;
    *key = (Slice){text.start + start, *at - start};
    *at = skip_folds(text, *at);
    if (!key->size || *at >= text.size || text.start[*at] != '=')
        return NOT_ORDINARY;
    start = *at = skip_folds(text, *at + 1);
    if (*at >= text.size || text.start[*at] == '\'')
        return NOT_ORDINARY;
    int is_quoted = text.start[*at] == '"';
    if (is_quoted) {
        start = ++*at;
        while (*at < text.size && text.start[*at] != '"' && text.start[*at] != '\\')
            (*at)++;
        if (*at >= text.size || text.start[*at] != '"')
            return NOT_ORDINARY;
    } else {
        while (*at < text.size && is_token(text.start[*at]))
            (*at)++;
    }
    *value = (Slice){text.start + start, *at - start};
    *at += (size_t)is_quoted;
    return value->size ? ORDINARY : NOT_ORDINARY;
}

/* Whether a value names a multipart at all. */
static int begins_as_multipart(Slice text)
{
    return text.size >= 9 && is_same_in_any_case((Slice){text.start, 9}, "multipart");
}

/* Read `multipart/mixed; boundary="x"`: each key once, nothing that has to be decoded, no name. */
static int read_multipart(Slice text, FlatNode *node)
{
    Slice keys[MAX_KEYS], charset = {NULL, 0};
    size_t at = 0, count = 0;
    while (at < text.size && (is_key(text.start[at]) || text.start[at] == '/' || text.start[at] == '+'))
        at++;
    Slice kind = {text.start, at};
    if (kind.size < 11 || kind.size > 60 || kind.start[9] != '/' || memchr(kind.start + 10, '/', kind.size - 10)
        || is_same_in_any_case(kind, "multipart/digest"))
        return NOT_ORDINARY;
    for (size_t i = 0; i + 4 <= text.size; i++)
        if (text.start[i] == '*' || is_same_in_any_case((Slice){text.start + i, 4}, "name"))
            return NOT_ORDINARY;
    while ((at = skip_folds(text, at)) < text.size) {
        Slice value;
        if (text.start[at] != ';')
            return NOT_ORDINARY;
        if ((at = skip_folds(text, at + 1)) >= text.size)
            break;
        if (count == MAX_KEYS || take_pair(text, &at, &keys[count], &value) != ORDINARY)
            return NOT_ORDINARY;
        for (size_t i = 0; i < count; i++) {
            char other[MAX_NAME];
            if (keys[i].size >= sizeof other)
                return NOT_ORDINARY;
            for (size_t j = 0; j < keys[i].size; j++)
                other[j] = (char)small_letter(keys[i].start[j]);
            other[keys[i].size] = 0;
            if (is_same_in_any_case(keys[count], other))
                return NOT_ORDINARY;
        }
        if (is_same_in_any_case(keys[count], "boundary"))
            node->boundary = value;
        else if (is_same_in_any_case(keys[count], "charset"))
            charset = value;
        count++;
    }
    size_t size = node->boundary.size;
    if (!size || size > MAX_BOUNDARY || is_fold((unsigned char)node->boundary.start[size - 1]))
        return NOT_ORDINARY;
    char lower[64];
    for (size_t i = 0; i < kind.size; i++)
        lower[i] = (char)small_letter(kind.start[i]);
    node->is_multipart = 1;
    node->kind = PyUnicode_DecodeASCII(lower, (Py_ssize_t)kind.size, NULL);
    node->charset =
        charset.size ? PyUnicode_DecodeASCII(charset.start, (Py_ssize_t)charset.size, NULL) : Py_NewRef(Py_None);
    return node->kind && node->charset ? ORDINARY : FAILED;
}

static Slice slice_of(PyObject *text)
{
    if (!text)
        return (Slice){"", 0};
    return (Slice){(const char *)PyUnicode_1BYTE_DATA(text), (size_t)PyUnicode_GET_LENGTH(text)};
}

/* Ask what the fields say of a leaf. */
static int describe_leaf(Flat *flat, FlatNode *node, PyObject **content)
{
    size_t size = 0;
    PyObject *given[CONTENT_FIELDS];
    for (int i = 0; i < CONTENT_FIELDS; i++) {
        given[i] = content[i] ? content[i] : Py_None;
        size += slice_of(content[i]).size;
    }
    Slice kind = slice_of(content[CONTENT_TYPE]);
    int is_known = size <= MAX_KNOWN_FIELDS && !contains(kind.start, kind.size, "oundary", 7);
    node->described =
        PyObject_Vectorcall(is_known ? flat->tools.known : flat->tools.describe, given, CONTENT_FIELDS, NULL);
    if (!node->described)
        return FAILED;
    if (node->described == Py_None)
        return NOT_ORDINARY;
    if (!PyTuple_Check(node->described) || PyTuple_GET_SIZE(node->described) != LEAF_SIZE
        || !PyUnicode_Check(PyTuple_GET_ITEM(node->described, LEAF_ENCODING))) {
        PyErr_SetString(PyExc_TypeError, "a leaf is described by a tuple of seven");
        return FAILED;
    }
    return ORDINARY;
}

static int describe_node(Flat *flat, FlatNode *node, PyObject **content)
{
    Slice kind = slice_of(content[CONTENT_TYPE]), encoding = slice_of(content[CONTENT_ENCODING]);
    if (!begins_as_multipart(kind))
        return describe_leaf(flat, node, content);
    if (content[CONTENT_DISPOSITION]
        || (encoding.size && !is_same_in_any_case(encoding, "7bit") && !is_same_in_any_case(encoding, "8bit")
            && !is_same_in_any_case(encoding, "binary")))
        return NOT_ORDINARY;
    int result = read_multipart(kind, node);
    if (result != ORDINARY)
        return result;
    /* The boundary is looked for in the source: it is taken from there, since the value is not kept. */
    Slice boundary = node->boundary;
    const unsigned char *place =
        memmem(flat->bytes + node->head, node->start - node->head, boundary.start, boundary.size);
    if (!place)
        return NOT_ORDINARY;
    node->boundary.start = (const char *)place;
    for (int i = 0; i < flat->count - 1; i++) {
        Slice other = flat->nodes[i].boundary;
        if (other.size == node->boundary.size && !memcmp(other.start, node->boundary.start, other.size))
            return NOT_ORDINARY;
    }
    return ORDINARY;
}

/* ---------------------------------------------------------------- the tree */

/* Open the entity whose header begins at `head`. */
static int open_node(Flat *flat, size_t head, int parent)
{
    PyObject *content[CONTENT_FIELDS] = {NULL};
    if (flat->count == MAX_NODES)
        return NOT_ORDINARY;
    FlatNode *node = &flat->nodes[flat->count++];
    *node = (FlatNode){.head = head, .end = flat->length, .parent = parent, .last_child = -1, .epilogue = NOWHERE};
    if (parent < 0) {
        node->path = PyUnicode_FromString("1");
    } else {
        FlatNode *above = &flat->nodes[parent];
        above->last_child = flat->count - 1;
        node->path = PyUnicode_FromFormat("%U.%d", above->path, ++above->children);
    }
    int result = node->path ? read_header(flat, node, content) : FAILED;
    if (result == ORDINARY)
        result = describe_node(flat, node, content);
    for (int i = 0; i < CONTENT_FIELDS; i++)
        Py_XDECREF(content[i]);
    if (result == ORDINARY && node->is_multipart) {
        if (flat->opened == MAX_OPEN)
            return NOT_ORDINARY;
        flat->open[flat->opened++] = flat->count - 1;
    }
    return result;
}

/* End the last part of a multipart before a delimiter whose line feed is at `at`. */
static void close_child(Flat *flat, FlatNode *node, size_t at)
{
    size_t end = at > 0 && flat->bytes[at - 1] == '\r' ? at - 1 : at;
    if (node->last_child < 0) {
        node->preamble_end = at > node->start ? at : node->start;
        return;
    }
    FlatNode *child = &flat->nodes[node->last_child];
    child->end = end > child->start ? end : child->start;
    if (child->epilogue != NOWHERE)
        child->epilogue_end = end > child->epilogue ? end : child->epilogue;
}

static int is_boundary(Slice line, const FlatNode *node)
{
    return line.size == node->boundary.size && !memcmp(line.start, node->boundary.start, line.size);
}

/* Whether a line begins with the boundary of any multipart so far. */
static int begins_with_boundary(const Flat *flat, Slice line)
{
    for (int i = 0; i < flat->count; i++) {
        Slice boundary = flat->nodes[i].boundary;
        if (boundary.size && line.size >= boundary.size && !memcmp(line.start, boundary.start, boundary.size))
            return 1;
    }
    return 0;
}

/* What a line after `--` means to the innermost open multipart: its next part (1), its end (2), nothing (0); -1 where
   it is a delimiter of another one. */
static int sort_line(const Flat *flat, Slice line)
{
    Slice shorter = line;
    int is_end = line.size >= 2 && line.start[line.size - 1] == '-' && line.start[line.size - 2] == '-';
    shorter.size -= is_end ? 2 : 0;
    for (int i = 0; i < flat->opened; i++)
        if (is_boundary(line, &flat->nodes[flat->open[i]]))
            return i == flat->opened - 1 ? 1 : -1;
    for (int i = 0; is_end && i < flat->opened; i++)
        if (is_boundary(shorter, &flat->nodes[flat->open[i]]))
            return i == flat->opened - 1 ? 2 : -1;
    return begins_with_boundary(flat, line) ? -1 : 0;
}

/* Go through the lines that begin with `--` until the outermost multipart has ended. */
static int scan_parts(Flat *flat)
{
    const unsigned char *bytes = flat->bytes;
    size_t position = flat->nodes[0].start;
    while (flat->opened) {
        const unsigned char *found = memmem(bytes + position - 1, flat->length - position + 1, "\n--", 3);
        if (!found || ++flat->dashes > MAX_DASHES)
            return NOT_ORDINARY;
        size_t at = (size_t)(found - bytes), start = at + 3;
        const unsigned char *feed = memchr(bytes + start, '\n', flat->length - start);
        size_t end = feed ? (size_t)(feed - bytes) : flat->length, after = feed ? end + 1 : flat->length;
        if (end - start > LONGEST_DELIMITER)
            end = start + LONGEST_DELIMITER;
        while (end > start && (is_fold(bytes[end - 1]) || bytes[end - 1] == '\r'))
            end--;
        int sort = sort_line(flat, (Slice){(const char *)bytes + start, end - start});
        flat->delimiters += (size_t)(flat->opened + flat->ended) + (sort > 0 ? FOUND_DELIMITER : 0);
        position = after;
        if (sort < 0 || !after)
            return NOT_ORDINARY;
        if (!sort)
            continue;
        int top = flat->open[flat->opened - 1];
        close_child(flat, &flat->nodes[top], at);
        if (sort == 2) {
            if (!flat->nodes[top].children)
                return NOT_ORDINARY;
            flat->nodes[top].epilogue = flat->nodes[top].epilogue_end = after;
            flat->opened--;
            flat->ended++;
            continue;
        }
        int result = open_node(flat, after, top);
        if (result != ORDINARY)
            return result;
        if (flat->nodes[flat->count - 1].start > position)
            position = flat->nodes[flat->count - 1].start;
    }
    if (flat->nodes[0].is_multipart) {
        flat->nodes[0].epilogue_end = flat->length;
        /* A boundary that comes back after everything has ended. */
        for (size_t from = position - 1; from < flat->length;) {
            const unsigned char *found = memmem(bytes + from, flat->length - from, "\n--", 3);
            if (!found)
                break;
            from = (size_t)(found - bytes) + 3;
            if (begins_with_boundary(flat, (Slice){(const char *)bytes + from, flat->length - from}))
                return NOT_ORDINARY;
        }
    }
    return ORDINARY;
}

/* What bytes.strip takes away. */
static int is_byte_blank(unsigned char c)
{
    return c == ' ' || (c >= 9 && c <= 13);
}

/* Whether what stands before or after the parts is nothing, or what mail programs write there for others. */
static int is_nothing(const Flat *flat, size_t start, size_t end)
{
    static const char *greetings[] = {
        "this is a multi-part message in mime format",
        "this is a multipart message in mime format",
        "this is a mime-encapsulated message",
        "this is a mime encoded message",
        "this is a cryptographically signed message in mime format",
        "this is an openpgp/mime signed message (rfc 2440 and 3156)",
        "this is an openpgp/mime signed message (rfc 4880 and 3156)",
    };
    char text[100];
    size_t size = 0;
    if (end <= start + 4)
        return 1;
    for (size_t at = start; at < end; at++) {
        unsigned char c = flat->bytes[at];
        if (is_byte_blank(c)) {
            if (size && text[size - 1] != ' ')
                text[size++] = ' ';
        } else {
            text[size++] = (char)small_letter(c);
        }
        if (size == sizeof text)
            return 0;
    }
    while (size && text[size - 1] == ' ')
        size--;
    if (!size)
        return 1;
    while (size && text[size - 1] == '.')
        size--;
    for (size_t i = 0; i < sizeof greetings / sizeof *greetings; i++)
        if (strlen(greetings[i]) == size && !memcmp(greetings[i], text, size))
            return end - start <= MAX_BOUNDARY;
    return 0;
}

/* Whether a content field stands at the beginning of a line outside of all header sections. */
static int has_hidden_field(const Flat *flat)
{
    size_t start = 0, count = 0;
    for (int i = 0; i <= flat->count; i++) {
        size_t end = i < flat->count ? flat->nodes[i].head : flat->length;
        Py_ssize_t place = (Py_ssize_t)start - 1;
        while ((place = content_field_place(flat->bytes, (Py_ssize_t)flat->length, place + 1, (Py_ssize_t)end)) >= 0) {
            size_t before = (size_t)place, first = before > 40 ? before - 40 : 0;
            while (before > first && is_fold(flat->bytes[before - 1]))
                before--;
            if (++count > MAX_OCCURRENCES || before == first || is_line_end(flat->bytes[before - 1]))
                return 1;
        }
        if (i < flat->count && flat->nodes[i].start > start)
            start = flat->nodes[i].start;
    }
    return 0;
}

/* ---------------------------------------------------------------- contents */

static int hex_value(unsigned char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    int letter = small_letter(c);
    return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

/* Decode quoted-printable in which every equals sign begins an escape or ends a line, and escapes are in letters of one
   case; NULL without an error where it is not so. */
static PyObject *decode_plain_quoted(const unsigned char *bytes, size_t size)
{
    PyObject *content = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (!content)
        return NULL;
    unsigned char *out = (unsigned char *)PyBytes_AS_STRING(content), *start = out;
    int has_small = 0, has_large = 0;
    for (size_t at = 0; at < size;) {
        const unsigned char *sign = memchr(bytes + at, '=', size - at);
        size_t until = sign ? (size_t)(sign - bytes) : size;
        memcpy(out, bytes + at, until - at);
        out += until - at;
        at = until;
        if (!sign)
            break;
        if (at + 1 < size && bytes[at + 1] == '\n') {
            at += 2;
            continue;
        }
        if (at + 2 >= size) {
            Py_DECREF(content);
            return NULL;
        }
        if (bytes[at + 1] != '\r' || bytes[at + 2] != '\n') {
            int high = hex_value(bytes[at + 1]), low = hex_value(bytes[at + 2]);
            if (high < 0 || low < 0) {
                Py_DECREF(content);
                return NULL;
            }
            int is_small = bytes[at + 1] >= 'a' || bytes[at + 2] >= 'a';
            has_small |= is_small;
            has_large |= !is_small && (bytes[at + 1] >= 'A' || bytes[at + 2] >= 'A');
            *out++ = (unsigned char)(high << 4 | low);
        }
        at += 3;
    }
    if (has_small && has_large) {
        Py_DECREF(content);
        return NULL;
    }
    return _PyBytes_Resize(&content, out - start) < 0 ? NULL : content;
}

/* The value of each letter of base64; 64 for a line end, 65 for what does not belong there. */
static unsigned char base64_values[256];

static void fill_base64_values(void)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    memset(base64_values, 65, sizeof base64_values);
    base64_values['\r'] = base64_values['\n'] = 64;
    for (int i = 0; i < 64; i++)
        base64_values[(unsigned char)letters[i]] = (unsigned char)i;
}

/* Decode base64 that is nothing but letters, line ends and one padding at its end, in lines of whole groups; NULL
   without an error where it is not so. */
static PyObject *decode_plain_base64(const unsigned char *bytes, size_t size)
{
    PyObject *content = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(size / 4 * 3 + 3));
    if (!content)
        return NULL;
    unsigned char *out = (unsigned char *)PyBytes_AS_STRING(content), *start = out;
    uint32_t group = 0;
    size_t letters = 0, padding = 0, at = 0;
    int is_plain = 1;
    for (; at < size && is_plain; at++) {
        unsigned char value = base64_values[bytes[at]];
        if (value == 64) {
            /* A line that does not end with a whole group: another program may decode each line by itself. */
            is_plain = bytes[at] == '\r' || (letters + padding) % 4 == 0;
            continue;
        }
        if (bytes[at] == '=') {
            padding++;
            is_plain = padding <= 2;
            continue;
        }
        is_plain = value < 64 && !padding;
        group = group << 6 | value;
        if (++letters % 4 == 0) {
            *out++ = (unsigned char)(group >> 16);
            *out++ = (unsigned char)(group >> 8);
            *out++ = (unsigned char)group;
        }
    }
    if (!is_plain || (letters + padding) % 4 || letters % 4 == 1) {
        Py_DECREF(content);
        return NULL;
    }
    if (letters % 4 == 3) {
        *out++ = (unsigned char)(group >> 10);
        *out++ = (unsigned char)(group >> 2);
    } else if (letters % 4 == 2) {
        *out++ = (unsigned char)(group >> 4);
    }
    return _PyBytes_Resize(&content, out - start) < 0 ? NULL : content;
}

/* Whether bytes may be base64 that nobody declared: then `is_likely_base64` looks at them. */
static int may_be_base64(const unsigned char *bytes, size_t size)
{
    size_t at = 0;
    while (at < size && is_byte_blank(bytes[at]))
        at++;
    return !memchr(bytes + at, ' ', size - at < 20 ? size - at : 20) && size - at >= 40;
}

/* The content of a text without a name; NULL without an error where it is to be read by `read_leaf`. */
static PyObject *decode_text_leaf(const Flat *flat, const FlatNode *node)
{
    const unsigned char *body = flat->bytes + node->start;
    size_t size = node->end - node->start;
    Slice encoding = slice_of(PyTuple_GET_ITEM(node->described, LEAF_ENCODING));
    PyObject *content;
    if (!encoding.size)
        content = may_be_base64(body, size) ? NULL : PyBytes_FromStringAndSize((const char *)body, (Py_ssize_t)size);
    else if (encoding.start[0] == 'b')
        content = decode_plain_base64(body, size);
    else
        content = decode_plain_quoted(body, size);
    size_t length = content ? (size_t)PyBytes_GET_SIZE(content) : 0;
    if (length > MAX_TEXT_LEAF || (length && memchr(PyBytes_AS_STRING(content), 0, length)))
        Py_CLEAR(content);
    return content;
}

static PyObject *make_part(const Flat *flat, const FlatNode *node, PyObject *const *about, PyObject *content,
                           PyObject *children, PyObject *signs)
{
    PyObject *given[] = {node->path, node->headers, about[0], about[1], about[2], about[3], content, children, signs};
    return PyObject_Vectorcall(flat->tools.make_part, given, sizeof given / sizeof *given, NULL);
}

/* Make the part of a leaf; by `read_leaf` where it is more than a plain text. */
static int make_leaf(Flat *flat, FlatNode *node, PyObject *nothing)
{
    PyObject *const *about = &PyTuple_GET_ITEM(node->described, 0);
    PyObject *content = about[LEAF_IS_TEXT] == Py_True ? decode_text_leaf(flat, node) : NULL;
    if (!content && PyErr_Occurred())
        return FAILED;
    PyObject *signs = content ? content_signs(NULL, content) : NULL;
    if (content && !signs) {
        Py_DECREF(content);
        return FAILED;
    }
    if (content && !(PyLong_AsLong(signs) & EMBEDS)) {
        flat->decoded += (size_t)PyBytes_GET_SIZE(content);
        node->part = make_part(flat, node, about, content, nothing, signs);
    } else {
        const char *start = (const char *)flat->bytes + node->start;
        PyObject *body = PyBytes_FromStringAndSize(start, (Py_ssize_t)(node->end - node->start));
        PyObject *given[] = {node->path, about[LEAF_ENTITY], node->headers, body};
        node->part = body ? PyObject_Vectorcall(flat->tools.read_leaf, given, 4, NULL) : NULL;
        Py_XDECREF(body);
        PyObject *inside = node->part && node->part != Py_None ? PyObject_GetAttr(node->part, content_attribute) : NULL;
        if (inside && PyBytes_Check(inside))
            flat->decoded += (size_t)PyBytes_GET_SIZE(inside);
        else if (PyErr_Occurred())
            Py_CLEAR(node->part);
        Py_XDECREF(inside);
    }
    Py_XDECREF(content);
    Py_XDECREF(signs);
    return !node->part ? FAILED : node->part == Py_None ? NOT_ORDINARY : ORDINARY;
}

static int make_container(Flat *flat, FlatNode *node, PyObject *empty, PyObject *nothing)
{
    PyObject *children = PyTuple_New(node->children), *signs = PyLong_FromLong(-1);
    PyObject *no_disposition = PyUnicode_New(0, 0);
    int number = (int)(node - flat->nodes);
    Py_ssize_t filled = 0;
    for (int i = number + 1; children && i < flat->count; i++)
        if (flat->nodes[i].parent == number)
            PyTuple_SET_ITEM(children, filled++, Py_NewRef(flat->nodes[i].part));
    if (children && signs && no_disposition) {
        PyObject *about[] = {node->kind, node->charset, no_disposition, nothing};
        node->part = make_part(flat, node, about, empty, children, signs);
    }
    Py_XDECREF(children);
    Py_XDECREF(signs);
    Py_XDECREF(no_disposition);
    return node->part ? ORDINARY : FAILED;
}

static int make_parts(Flat *flat)
{
    PyObject *nothing = PyTuple_New(0), *empty = PyBytes_FromStringAndSize(NULL, 0);
    int result = nothing && empty ? ORDINARY : FAILED;
    for (int i = 0; i < flat->count && result == ORDINARY; i++)
        if (!flat->nodes[i].is_multipart)
            result = make_leaf(flat, &flat->nodes[i], nothing);
    for (int i = flat->count - 1; i >= 0 && result == ORDINARY; i--)
        if (flat->nodes[i].is_multipart)
            result = make_container(flat, &flat->nodes[i], empty, nothing);
    Py_XDECREF(nothing);
    Py_XDECREF(empty);
    return result;
}

static int read_flat(Flat *flat)
{
    int result = open_node(flat, 0, -1);
    if (result == ORDINARY && flat->nodes[0].is_multipart)
        result = scan_parts(flat);
    for (int i = 0; i < flat->count && result == ORDINARY; i++) {
        const FlatNode *node = &flat->nodes[i];
        if (node->is_multipart
            && !(is_nothing(flat, node->start, node->preamble_end)
                 && is_nothing(flat, node->epilogue, node->epilogue_end)))
            result = NOT_ORDINARY;
    }
    if (result == ORDINARY && has_hidden_field(flat))
        result = NOT_ORDINARY;
    return result == ORDINARY ? make_parts(flat) : result;
}

static PyObject *give_parts(const Flat *flat)
{
    PyObject *parts = PyTuple_New(flat->count);
    for (int i = 0; parts && i < flat->count; i++)
        PyTuple_SET_ITEM(parts, i, Py_NewRef(flat->nodes[i].part));
    return parts ? Py_BuildValue("(OnN(nnn))", flat->nodes[0].headers, (Py_ssize_t)flat->nodes[0].start, parts,
                                 (Py_ssize_t)flat->fields, (Py_ssize_t)flat->delimiters, (Py_ssize_t)flat->decoded)
                 : NULL;
}

static PyObject *read_ordinary(PyObject *self, PyObject *args)
{
    PyObject *source, *result = NULL;
    FlatTools tools;
    (void)self;
    if (!PyArg_ParseTuple(args, "SOOOOOOO", &source, &tools.make_field, &tools.make_headers, &tools.make_part,
                          &tools.decode, &tools.known, &tools.describe, &tools.read_leaf))
        return NULL;
    if (!PyBytes_GET_SIZE(source) || PyBytes_GET_SIZE(source) > MAX_ORDINARY)
        Py_RETURN_NONE;
    Flat *flat = PyMem_Malloc(sizeof *flat);
    if (!flat)
        return PyErr_NoMemory();
    flat->bytes = (const unsigned char *)PyBytes_AS_STRING(source);
    flat->length = (size_t)PyBytes_GET_SIZE(source);
    flat->fields = flat->dashes = flat->delimiters = flat->decoded = 0;
    flat->count = flat->opened = flat->ended = 0;
    flat->tools = tools;
    int found = read_flat(flat);
    if (found == ORDINARY)
        result = give_parts(flat);
    else if (found == NOT_ORDINARY)
        result = Py_NewRef(Py_None);
    for (int i = 0; i < flat->count; i++) {
        FlatNode *node = &flat->nodes[i];
        Py_XDECREF(node->path);
        Py_XDECREF(node->headers);
        Py_XDECREF(node->kind);
        Py_XDECREF(node->charset);
        Py_XDECREF(node->described);
        Py_XDECREF(node->part);
    }
    PyMem_Free(flat);
    return result;
}
