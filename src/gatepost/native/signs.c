/* Signs of a message's texts and URLs that triggers of checks ask for, all in one call each. Part of `_speedups.c`.

A sign that is set without need costs one call of a check; one that is missing would lose a finding. So each of these is a
necessary condition of what `checks/triggers.py` says it stands for, and where a character takes more, it is set. */

enum { EVASIVE = 1, PLANTED_SUM = 2, LARGE_SUM = 4, ODD_NUMBER = 8 };
enum { HAS_AT = 1, HAS_PORT = 2, DOWNLOADS = 4, LURES = 8 };

/* What a wider character is here: a sign of money, a letter of the alphabets that look like Latin, anything else. */
enum { MONEY = 0x80, LOOKALIKE = 0x81, OTHER = 0x82 };

#define MOST_SPELLED 2500
#define MOST_SUM 8000
#define MOST_NUMBER 8000
#define MOST_PLANTED 600
#define MOST_MIXED 8000
#define MOST_TAIL 1500
#define LEAST_RUN 150
#define SHORTEST_DISGUISED 5
#define MOST_AFTER_MARK 12

/* So many characters of a text, one byte for each; `copy` is what to free afterwards, or NULL. */
static const unsigned char *take_start(PyObject *text, Py_ssize_t most, Py_ssize_t *size, unsigned char **copy)
{
    *copy = NULL;
    *size = PyUnicode_GET_LENGTH(text) < most ? PyUnicode_GET_LENGTH(text) : most;
    if (PyUnicode_IS_ASCII(text))
        return PyUnicode_1BYTE_DATA(text);
    unsigned char *bytes = PyMem_Malloc((size_t)*size + 1);
    if (!bytes) {
        PyErr_NoMemory();
        return NULL;
    }
    int kind = PyUnicode_KIND(text);
    const void *data = PyUnicode_DATA(text);
    for (Py_ssize_t at = 0; at < *size; at++) {
        Py_UCS4 c = PyUnicode_READ(kind, data, at);
        if (c < 0x80)
            bytes[at] = (unsigned char)c;
        else if (c == 0x20AC || c == 0xA3 || c == 0xA5)
            bytes[at] = MONEY;
        else if (Py_UNICODE_ISDECIMAL(c))
            bytes[at] = '0';
        else
            bytes[at] = c >= 0x370 && c <= 0x52F ? LOOKALIKE : OTHER;
    }
    *copy = bytes;
    return bytes;
}

/* Whether a word with a mark inside goes on, or is part of an address, where this character follows. */
static int ends_no_word(unsigned char c)
{
    return is_word_character(c) || (c && strchr("_@./=&?%#-", c));
}

/* Whether a word with a mark inside, which begins at a place and has its first mark at another, may be a disguised one. */
static int may_disguise(const unsigned char *text, Py_ssize_t size, Py_ssize_t start, Py_ssize_t mark)
{
    Py_ssize_t end = mark + 1, last = end + MOST_AFTER_MARK;
    for (; end < size && end <= last && sorts[text[end]] & (SMALL_LETTER | MARK); end++)
        if (sorts[text[end]] & SMALL_LETTER && end + 1 - start >= SHORTEST_DISGUISED
            && (end + 1 == size || !ends_no_word(text[end + 1])))
            return 1;
    return 0;
}

/* Whether a folded text has such a word, or three single letters with gaps around them (see `spelled_places`). */
static int may_spell(const unsigned char *text, Py_ssize_t size)
{
    Py_ssize_t single = -9;
    int chain = 0;
    for (Py_ssize_t at = 1; at < size; at++) {
        unsigned char sort = sorts[text[at]], before = sorts[text[at - 1]];
        if (sort & MARK && before & SMALL_LETTER) {
            Py_ssize_t start = at - 1;
            while (start > 0 && at - start <= LONGEST_BEGINNING && sorts[text[start - 1]] & SMALL_LETTER)
                start--;
            if (at - start <= LONGEST_BEGINNING && (!start || !(sorts[text[start - 1]] & INSIDE_WORD))
                && may_disguise(text, size, start, at))
                return 1;
        } else if (sort & GAP && before & (SMALL_LETTER | DIGIT) && at > 1 && sorts[text[at - 2]] & GAP) {
            Py_ssize_t apart = at - 1 - single;
            chain = apart == 2 || (apart == 3 && sorts[text[at - 3]] & GAP) ? chain + 1 : 1;
            single = at - 1;
            if (chain >= 3)
                return 1;
        }
    }
    return 0;
}

static int is_number(unsigned char c)
{
    return c >= '0' && c <= '9';
}

static int in_sum(unsigned char c)
{
    return is_number(c) || c == '.' || c == ',' || c == ' ';
}

/* Whether a sign or word of money stands anywhere in a folded text. */
static int names_money(const unsigned char *text, size_t size)
{
    static const char *const words[] = {"$", "usd", "eur", "gbp", "dol", "pound"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (memmem(text, size, words[i], strlen(words[i])))
            return 1;
    for (size_t at = 0; at < size; at++)
        if (text[at] >= MONEY)
            return 1;
    return 0;
}

/* Whether a folded text may name a hundred thousand or more: three digits and three others, or digits before the word for
   a million, and a sign or word of money anywhere. */
static int may_name_large_sum(const unsigned char *text, Py_ssize_t size)
{
    Py_ssize_t digits = 0, group = 0;
    for (Py_ssize_t at = 0; at < size; at++) {
        unsigned char c = text[at];
        int has_number = 0;
        if (is_number(c)) {
            digits++;
            has_number = group && digits >= 3;
        } else if (digits) {
            group = digits >= 3 && (c == '.' || c == ',' || c == ' ');
            Py_ssize_t next = at + (c == ' ');
            has_number = next < size && (text[next] == 'm' || text[next] == 'b');
            digits = 0;
        } else {
            group = 0;
        }
        /* Most texts have no such number, and are not searched for money. */
        if (has_number)
            return names_money(text, (size_t)size);
    }
    return 0;
}

/* Whether a folded text may hold a number that is written for people only: among ten characters that are, or look like,
   digits in a row of such and of what stands between them at least five are digits, and not all; or there are ten single
   digits with gaps between; or seven words for digits. */
static int may_hold_number(const unsigned char *text, Py_ssize_t size)
{
    int words = 0, like = 0, single = 0, bars = 0, all = 0;
    unsigned window = 0;
    unsigned char before = 0;
    for (Py_ssize_t at = 0; at < size; at++) {
        unsigned char c = text[at], sort = c >= MONEY ? IN_NUMBER : sorts[c];
        if (sort & LIKE_DIGIT) {
            window = (window << 1 | !!(sort & DIGIT)) & 0x3FF;
            int digits = __builtin_popcount(window);
            bars += c == '|';
            all += !!(sort & DIGIT);
            /* A bar may be a digit, or stand between digits: then those of the whole row count. */
            if (++like >= LEAST_LIKE_DIGITS
                && (bars ? all >= LEAST_DIGITS : digits >= LEAST_DIGITS && digits < LEAST_LIKE_DIGITS))
                return 1;
        } else if (!(sort & IN_NUMBER)) {
            like = single = bars = all = 0;
        }
        if (sort & DIGIT) {
            single = before & DIGIT ? 1 : single + 1;
            if (single >= LEAST_LIKE_DIGITS)
                return 1;
        }
        if (sort & SMALL_LETTER && !(before & SMALL_LETTER) && is_digit_word(text + at, size - at)
            && ++words >= LEAST_DIGIT_WORDS)
            return 1;
        before = sort;
    }
    return 0;
}

static unsigned char small(unsigned char c)
{
    return c >= 'A' && c <= 'Z' ? c + 32 : c;
}

/* Whether three or more characters of a sum, of which the first is a digit, end right before a place. */
static int ends_sum(const unsigned char *text, Py_ssize_t at)
{
    for (Py_ssize_t i = at - 1, size = 1; i >= 0 && size <= MOST_AFTER_MARK && in_sum(text[i]); i--, size++)
        if (is_number(text[i]) && size >= 3)
            return 1;
    return 0;
}

/* Whether a sum may stand where a text begins: with its sign before it, or with its coin behind it. */
static int may_plant_sum(const unsigned char *text, Py_ssize_t size)
{
    static const char *const coins[] = {"usd", "eur", "btc", "eth"};
    for (Py_ssize_t at = 0; at < size; at++) {
        unsigned char c = text[at];
        int is_sign = c == '$' || c == MONEY;
        if (c == '+' || is_sign) {
            Py_ssize_t next = at + 1;
            next += next < size && text[next] == ' ';
            if (next + 2 < size && is_number(text[next]) && in_sum(text[next + 1]) && in_sum(text[next + 2]))
                return 1;
        }
        if (!is_sign && (at == 0 || !in_sum(text[at - 1])))
            continue;
        int is_coin = is_sign;
        for (size_t i = 0; !is_coin && i < sizeof coins / sizeof *coins && at + 3 <= size; i++)
            is_coin = small(c) == coins[i][0] && small(text[at + 1]) == coins[i][1] && small(text[at + 2]) == coins[i][2];
        if (is_coin && ends_sum(text, at))
            return 1;
    }
    return 0;
}

/* Whether so many small letters and blanks stand in a row. */
static int has_run(PyObject *text, Py_ssize_t start, Py_ssize_t size)
{
    int kind = PyUnicode_KIND(text);
    const void *data = PyUnicode_DATA(text);
    while (LEAST_RUN <= size - start) {
        Py_ssize_t at = start + LEAST_RUN;
        for (; at > start; at--) {
            Py_UCS4 c = PyUnicode_READ(kind, data, at - 1);
            if (c >= 256 || !(sorts[c] & IN_RUN))
                break;
        }
        if (at == start)
            return 1;
        start = at;
    }
    return 0;
}

/* The signs of one text as it is shown; -1 for an error. */
static int look_at_shown(PyObject *text)
{
    unsigned char *copy;
    Py_ssize_t size, length = PyUnicode_GET_LENGTH(text);
    const unsigned char *bytes = take_start(text, MOST_MIXED, &size, &copy);
    if (!bytes)
        return -1;
    int found = may_plant_sum(bytes, size < MOST_PLANTED ? size : MOST_PLANTED) ? PLANTED_SUM : 0;
    if (copy) {
        /* Digits that are styled are no ASCII. */
        found |= ODD_NUMBER;
        if (memchr(copy, LOOKALIKE, (size_t)size))
            found |= EVASIVE;
    }
    PyMem_Free(copy);
    if (!(found & EVASIVE) && has_run(text, length > MOST_TAIL ? length - MOST_TAIL : 0, length))
        found |= EVASIVE;
    return found;
}

static int look_at_folded(PyObject *text)
{
    unsigned char *copy;
    Py_ssize_t size;
    const unsigned char *bytes = take_start(text, MOST_SUM, &size, &copy);
    if (!bytes)
        return -1;
    int found = may_spell(bytes, size < MOST_SPELLED ? size : MOST_SPELLED) ? EVASIVE : 0;
    found |= may_name_large_sum(bytes, size) ? LARGE_SUM : 0;
    found |= may_hold_number(bytes, size < MOST_NUMBER ? size : MOST_NUMBER) ? ODD_NUMBER : 0;
    PyMem_Free(copy);
    return found;
}

/* The signs of one text that is hidden. */
static int look_at_hidden(PyObject *text)
{
    Py_ssize_t length = PyUnicode_GET_LENGTH(text);
    return has_run(text, 0, length < MOST_TAIL ? length : MOST_TAIL) ? EVASIVE : 0;
}

static int look_at_subject(PyObject *subject)
{
    if (PyUnicode_IS_ASCII(subject))
        return 0;
    int kind = PyUnicode_KIND(subject);
    const void *data = PyUnicode_DATA(subject);
    for (Py_ssize_t i = 0; i < PyUnicode_GET_LENGTH(subject); i++) {
        Py_UCS4 c = PyUnicode_READ(kind, data, i);
        if (c >= 0x370 && c <= 0x52F)
            return EVASIVE;
    }
    return 0;
}

/* ---------------------------------------------------------------- URLs */

#define LONGEST_URL_READ 2000
#define MOST_PATH 300
#define LONGEST_URL_ENDING 5

static int is_among(const unsigned char *text, size_t size, const char *words)
{
    char ending[LONGEST_URL_ENDING + 3] = " ";
    if (!size || size > LONGEST_URL_ENDING)
        return 0;
    for (size_t i = 0; i < size; i++)
        ending[i + 1] = (char)small(text[i]);
    ending[size + 1] = ' ';
    return strstr(words, ending) != NULL;
}

/* Whether a URL ends like a program or an archive, or like a page with the ending of a document before its own. */
static int may_download(const unsigned char *url, size_t size)
{
    static const char programs[] =
        " exe scr pif cpl bat cmd js jse vbs vbe wsf hta ps1 lnk msi msix appx jar apk iso img vhd xll zip rar 7z ace cab"
        " arj ";
    static const char documents[] = " pdf doc docx xls xlsx jpg jpeg png txt rtf mp3 mp4 ";
    const unsigned char *query = memchr(url, '?', size);
    size_t end = query ? (size_t)(query - url) : size;
    const unsigned char *dot = memrchr(url, '.', end);
    if (!dot)
        return 0;
    const unsigned char *stop = memchr(dot, '#', (size_t)(url + end - dot));
    size_t length = (size_t)((stop ? stop : url + end) - dot) - 1;
    if (is_among(dot + 1, length, programs))
        return 1;
    if (!is_among(dot + 1, length, " htm html "))
        return 0;
    /* With a fragment, the name in the path may have another ending; of a long URL, only the beginning is read. */
    if (memchr(url, '#', size) || size > LONGEST_URL_READ)
        return 1;
    const unsigned char *inner = memrchr(url, '.', (size_t)(dot - url));
    return inner && is_among(inner + 1, (size_t)(dot - inner) - 1, documents);
}

/* Whether the path of a URL may hold a word of lures, or a domain. */
static int may_lure(const unsigned char *url, size_t size)
{
    static const char *const words[] = {"login", "signin", "secure", "verify", "account", "update", "webscr", "confirm"};
    const unsigned char *slash = size > 8 ? memchr(url + 8, '/', size - 8) : NULL;
    if (!slash)
        return 0;
    size_t start = (size_t)(slash - url) + 1, end = size < start + MOST_PATH ? size : start + MOST_PATH;
    for (size_t at = start; at < end && url[at] != '?'; at++) {
        unsigned char c = small(url[at]);
        if (c == '.' && end - at > 3 && small(url[at + 1]) == 'c' && small(url[at + 2]) == 'o'
            && (url[at + 3] == '/' || url[at + 3] == '.' || small(url[at + 3]) == 'm'))
            return 1;
        if (!strchr("lsvauwc", c))
            continue;
        for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
            size_t length = strlen(words[i]), same = 0;
            if (words[i][0] != (char)c || end - at < length)
                continue;
            while (same < length && small(url[at + same]) == (unsigned char)words[i][same])
                same++;
            if (same == length)
                return 1;
        }
    }
    return 0;
}

/* url_signs(links): the signs of the URLs of links. */
static PyObject *url_signs(PyObject *self, PyObject *links)
{
    (void)self;
    int found = 0;
    if (!PyTuple_Check(links)) {
        PyErr_SetString(PyExc_TypeError, "links are a tuple");
        return NULL;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(links); i++) {
        PyObject *url = PyObject_GetAttr(PyTuple_GET_ITEM(links, i), url_attribute);
        if (!url)
            return NULL;
        if (!PyUnicode_Check(url) || !PyUnicode_IS_ASCII(url)) {
            found |= HAS_AT | HAS_PORT | DOWNLOADS | LURES;
            Py_DECREF(url);
            continue;
        }
        const unsigned char *bytes = PyUnicode_1BYTE_DATA(url);
        size_t size = (size_t)PyUnicode_GET_LENGTH(url);
        const unsigned char *colon = memchr(bytes, ':', size);
        if (memchr(bytes, '@', size))
            found |= HAS_AT;
        if (colon && memchr(colon + 1, ':', (size_t)(bytes + size - colon) - 1))
            found |= HAS_PORT;
        if (!(found & DOWNLOADS) && may_download(bytes, size))
            found |= DOWNLOADS;
        if (!(found & LURES) && may_lure(bytes, size))
            found |= LURES;
        Py_DECREF(url);
    }
    return PyLong_FromLong(found);
}
