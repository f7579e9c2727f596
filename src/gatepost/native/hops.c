/* Received fields, as `checks.sender.sending_host` reads them (RFC 5321 section 4.4). Part of `_speedups.c`. */

#define LONGEST_HOP 1024
#define LONGEST_HOST 255
#define LONGEST_COMMENT 300

/* A field with single blanks: what stands before ` by `, and what stands behind it. */
typedef struct {
    char text[LONGEST_HOP];
    size_t size, head, tail;
} HopText;

/* What the field says of the host that handed the mail over. */
typedef struct {
    Slice first, comment, helo, name, address;
} HopHost;

static int is_host_character(char c)
{
    return is_word_character((unsigned char)c) || c == '_' || c == '.' || c == '-';
}

static int is_letter(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static int starts_with(Slice text, const char *start)
{
    size_t size = strlen(start);
    return text.size >= size && !memcmp(text.start, start, size);
}

/* Copy a field with each run of white space as one blank, and none at its ends. */
static void copy_hop(const unsigned char *value, size_t length, HopText *hop)
{
    hop->size = 0;
    for (size_t i = 0; i < length; i++) {
        unsigned char c = value[i];
        if (is_blank(c)) {
            if (hop->size && hop->text[hop->size - 1] != ' ')
                hop->text[hop->size++] = ' ';
        } else {
            hop->text[hop->size++] = (char)c;
        }
    }
    if (hop->size && hop->text[hop->size - 1] == ' ')
        hop->size--;
    const char *by = memmem(hop->text, hop->size, " by ", 4);
    hop->head = by ? (size_t)(by - hop->text) : hop->size;
    hop->tail = by ? hop->head + 4 : hop->size;
}

/* The server behind `by`: a name that a blank, a bracket, a semicolon or the end follows. */
static Slice find_server(Slice tail)
{
    size_t size = 0;
    while (size < tail.size && size <= LONGEST_HOST && is_host_character(tail.start[size]))
        size++;
    if (size > LONGEST_HOST || (size < tail.size && !memchr(" (;", tail.start[size], 3)))
        size = 0;
    return (Slice){tail.start, size};
}

/* The domain of the first address behind `for`. */
static Slice find_recipient(Slice tail)
{
    const char *end = tail.start + tail.size, *at = tail.start;
    while ((at = memmem(at, (size_t)(end - at), " for ", 5))) {
        const char *local = at + 5;
        at++;
        if (local < end && *local == '<')
            local++;
        const char *sign = local;
        while (sign < end && sign - local <= 100 && !memchr("<> ;@", *sign, 5))
            sign++;
        if (sign == end || *sign != '@' || sign == local || sign - local > 100)
            continue;
        const char *domain = sign + 1, *last = domain;
        while (last < end && last - domain < LONGEST_HOST && is_host_character(*last))
            last++;
        if (last > domain)
            return (Slice){domain, (size_t)(last - domain)};
    }
    return (Slice){end, 0};
}

/* What a host said, where a server writes that apart: `(HELO mail.example)`, `helo=mail.example`. */
static Slice find_said(Slice head)
{
    for (size_t i = 0; i + 5 < head.size; i++) {
        const char *at = head.start + i;
        if ((at[4] != '=' && at[4] != ' ') || (memcmp(at, "HELO", 4) && memcmp(at, "EHLO", 4) && memcmp(at, "helo", 4)))
            continue;
        size_t size = 0;
        while (i + 5 + size < head.size && size < LONGEST_HOST && !memchr(" ()[];", at[5 + size], 6))
            size++;
        if (size)
            return (Slice){at + 5, size};
    }
    return (Slice){head.start, 0};
}

/* Whether a name has an ending of letters, digits and hyphens, which begins with a letter. */
static int has_ending(const char *name, size_t size)
{
    size_t dot = size;
    while (dot > 0 && name[dot - 1] != '.')
        dot--;
    size_t ending = size - dot;
    if (dot < 3 || dot > 252 || ending < 2 || ending > 63 || !is_letter(name[dot]))
        return 0;
    for (size_t i = dot; i < size; i++)
        if (name[i] == '_')
            return 0;
    return name[0] != '.' && name[0] != '-';
}

/* The name that a server found for the address, which follows it in brackets. */
static Slice find_name(Slice comment)
{
    size_t at = 0;
    while (at < comment.size) {
        size_t end = at;
        while (end < comment.size && is_host_character(comment.start[end]))
            end++;
        if (end + 1 < comment.size && comment.start[end] == ' ' && comment.start[end + 1] == '[') {
            size_t size = end - at;
            if (size && comment.start[end - 1] == '.')
                size--;
            if (has_ending(comment.start + at, size))
                return (Slice){comment.start + at, size};
        }
        while (end < comment.size && comment.start[end] != ' ' && comment.start[end] != '@')
            end++;
        at = end + 1;
    }
    return (Slice){comment.start, 0};
}

/* The first IPv4 address that stands alone, or in brackets. */
static Slice find_address(Slice head)
{
    for (size_t i = 0; i + 8 < head.size; i++) {
        if (!memchr("[(@ ", head.start[i], 4))
            continue;
        size_t at = i + 1;
        int groups = 0;
        for (; groups < 4; groups++) {
            size_t first = at;
            while (at < head.size && at - first < 3 && head.start[at] >= '0' && head.start[at] <= '9')
                at++;
            if (at == first || at == head.size || (groups < 3 && head.start[at] != '.'))
                break;
            at += groups < 3;
        }
        if (groups == 4 && (head.start[at] == ']' || head.start[at] == ')'))
            return (Slice){head.start + i + 1, at - i - 1};
    }
    return (Slice){head.start, 0};
}

/* Read what stands before ` by `: 1 for a host, 0 where no `from` is there, -1 where its name cannot be read. */
static int read_hop_host(Slice head, HopHost *host)
{
    if (!starts_with(head, "from "))
        return 0;
    const char *first = head.start + 5, *end = head.start + head.size, *last = first;
    while (last < end && last - first < LONGEST_HOST && !memchr(" ()", *last, 3))
        last++;
    if (last == first)
        return 0;
    host->comment = (Slice){last, 0};
    if (last + 1 < end && last[0] == ' ' && last[1] == '(') {
        const char *from = last + 2, *to = from;
        while (to < end && to - from < LONGEST_COMMENT && *to != ')')
            to++;
        host->comment = (Slice){from, (size_t)(to - from)};
    }
    while (last > first && last[-1] == '.')
        last--;
    host->first = (Slice){first, (size_t)(last - first)};
    for (size_t i = 0; i < host->first.size; i++)
        if (!is_host_character(first[i]) && !memchr(":[]", first[i], 3))
            return -1;
    if (!host->first.size)
        return -1;
    host->helo = find_said(head);
    host->name = find_name(host->comment);
    host->address = find_address(head);
    return 1;
}

/* Whether a name that may be an address is surely none: it ends with a letter and has no colon. */
static int is_surely_name(Slice name)
{
    while (name.size && memchr("[]", name.start[name.size - 1], 2))
        name.size--;
    return name.size && is_letter(name.start[name.size - 1]) && !memchr(name.start, ':', name.size);
}

static PyObject *make_lower(Slice text)
{
    char lower[LONGEST_HOP];
    for (size_t i = 0; i < text.size; i++)
        lower[i] = (char)(text.start[i] >= 'A' && text.start[i] <= 'Z' ? text.start[i] + 32 : text.start[i]);
    return PyUnicode_DecodeASCII(lower, (Py_ssize_t)text.size, NULL);
}

static int is_inside_network(const HopHost *host)
{
    if (host->address.size)
        return starts_with(host->address, "127.") || starts_with(host->address, "10.") ||
               starts_with(host->address, "192.168.") || starts_with(host->address, "169.254.");
    return host->first.size == 9 && !strncasecmp(host->first.start, "localhost", 9);
}

static PyObject *read_hop(PyObject *self, PyObject *args)
{
    PyObject *value, *make;
    Py_ssize_t most;
    HopText hop;
    (void)self;
    if (!PyArg_ParseTuple(args, "UnO", &value, &most, &make))
        return NULL;
    if (!PyUnicode_IS_ASCII(value) || most < 0 || most > LONGEST_HOP)
        Py_RETURN_NONE;
    Py_ssize_t length = PyUnicode_GET_LENGTH(value);
    copy_hop(PyUnicode_1BYTE_DATA(value), (size_t)(length < most ? length : most), &hop);
    Slice nothing = {hop.text, 0}, tail = {hop.text + hop.tail, hop.size - hop.tail};
    Slice server = find_server(tail), recipient = find_recipient(tail);
    HopHost host = {nothing, nothing, nothing, nothing, nothing};
    int has_host = read_hop_host((Slice){hop.text, hop.head}, &host);
    int is_inside = !has_host, is_unnamed = 0;
    Slice helo = nothing, name = nothing, address = nothing;
    if (has_host > 0 && server.size) {
        int is_apart = host.helo.size != 0;
        int has_dot = memchr(host.first.start, '.', host.first.size) != NULL;
        helo = is_apart ? host.helo : host.first;
        name = host.name;
        if (!name.size && is_apart && has_dot) {
            if (!is_surely_name(host.first))
                Py_RETURN_NONE;
            name = host.first;
        }
        int is_unknown = starts_with(host.comment, "unknown [") ||
                         (is_apart && (host.first.start[0] == '[' ||
                                       (host.first.size == 7 && !strncasecmp(host.first.start, "unknown", 7))));
        Slice behind = {tail.start + server.size, tail.size - server.size};
        is_unnamed = !name.size && (is_unknown || (starts_with(host.comment, "[") && starts_with(behind, " (8.")));
        address = host.address;
        is_inside = is_inside_network(&host);
    }
    PyObject *given[8] = {
        make_lower(helo), make_lower(name), Py_NewRef(is_unnamed ? Py_True : Py_False),
        PyUnicode_DecodeASCII(address.start, (Py_ssize_t)address.size, NULL), make_lower(server), make_lower(recipient),
        Py_NewRef(is_inside ? Py_True : Py_False), PyUnicode_DecodeASCII(hop.text, (Py_ssize_t)hop.size, NULL),
    };
    PyObject *made = NULL;
    if (given[0] && given[1] && given[3] && given[4] && given[5] && given[7])
        made = PyObject_Vectorcall(make, given, 8, NULL);
    for (int i = 0; i < 8; i++)
        Py_XDECREF(given[i]);
    return made;
}
