/* Characters of UTF-8; lone surrogates are three bytes each. Part of `_speedups.c`. */

static const uint8_t WORD_CHARACTERS[256] = {['0' ... '9'] = 1, ['A' ... 'Z'] = 1, ['a' ... 'z'] = 1};

static int is_word_character(unsigned char c)
{
    return WORD_CHARACTERS[c];
}

static int is_continuation(unsigned char c)
{
    return (c & 0xC0) == 0x80;
}

static size_t size_of_character(unsigned char first)
{
    return first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

/* The character that begins at a place; the text is UTF-8, and the place is not its end. */
static Py_UCS4 character_at(const unsigned char *text)
{
    if (text[0] < 0x80)
        return text[0];
    if (text[0] < 0xE0)
        return (Py_UCS4)(text[0] & 0x1F) << 6 | (text[1] & 0x3F);
    if (text[0] < 0xF0)
        return (Py_UCS4)(text[0] & 0x0F) << 12 | (Py_UCS4)(text[1] & 0x3F) << 6 | (text[2] & 0x3F);
    return (Py_UCS4)(text[0] & 0x07) << 18 | (Py_UCS4)(text[1] & 0x3F) << 12 | (Py_UCS4)(text[2] & 0x3F) << 6
        | (text[3] & 0x3F);
}

static size_t write_character(unsigned char *out, Py_UCS4 c)
{
    if (c < 0x80) {
        out[0] = (unsigned char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (unsigned char)(0xC0 | c >> 6);
        out[1] = (unsigned char)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (unsigned char)(0xE0 | c >> 12);
        out[1] = (unsigned char)(0x80 | (c >> 6 & 0x3F));
        out[2] = (unsigned char)(0x80 | (c & 0x3F));
        return 3;
    }
    out[0] = (unsigned char)(0xF0 | c >> 18);
    out[1] = (unsigned char)(0x80 | (c >> 12 & 0x3F));
    out[2] = (unsigned char)(0x80 | (c >> 6 & 0x3F));
    out[3] = (unsigned char)(0x80 | (c & 0x3F));
    return 4;
}

/* Append the UTF-8 of a text, which `out` has room for: at most three bytes a character below U+10000, else four. */
static size_t write_text(unsigned char *out, PyObject *text)
{
    size_t length = (size_t)PyUnicode_GET_LENGTH(text), size = 0;
    if (PyUnicode_IS_ASCII(text)) {
        memcpy(out, PyUnicode_1BYTE_DATA(text), length);
        return length;
    }
    int kind = PyUnicode_KIND(text);
    const void *data = PyUnicode_DATA(text);
    for (size_t i = 0; i < length; i++)
        size += write_character(out + size, PyUnicode_READ(kind, data, (Py_ssize_t)i));
    return size;
}

/* How many bytes `write_text` may need. */
static size_t room_for(PyObject *text)
{
    size_t length = (size_t)PyUnicode_GET_LENGTH(text);
    return PyUnicode_IS_ASCII(text) ? length : length * (PyUnicode_KIND(text) == PyUnicode_1BYTE_KIND ? 2 : 4);
}
