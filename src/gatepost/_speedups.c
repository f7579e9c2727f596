/* Native twins of the hottest functions of an analysis.

Each function here does what a Python function of the same name does (`near_duplicates.smallest_hashes`,
`textmodel.model.RowTable`, `checks.phrases.Phrasebook`, `mail.headers.split_fields`), and tests hold the two equal.
Nothing here keeps state between two messages (but names: of header fields, see `field_names`, and of features that two
concepts make), calls the system, or reads beyond the length that an object states. All integers that come from a message are bounded before they are used
as a size.

Each subject has a file of its own in `native/`. They are compiled as one unit, so that all but the module stays static. */

#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ITEMS (1 << 24)
#define MAX_BYTES ((size_t)1 << 28)

typedef struct {
    const char *start;
    size_t size;
} Slice;

#include "native/characters.c"
#include "native/word_array.c"
#include "native/signatures.c"
#include "native/phrases.c"
#include "native/concepts.c"
#include "native/text_model.c"
#include "native/letters.c"
#include "native/words.c"
#include "native/reading.c"
#include "native/styles.c"
#include "native/page.c"
#include "native/mail.c"
#include "native/links.c"
#include "native/looks.c"
#include "native/signs.c"
#include "native/message_phrases.c"
#include "native/contents.c"
#include "native/nesting.c"
#include "native/flat.c"
#include "native/hops.c"

static PyMethodDef row_table_methods[] = {
    {"find", (PyCFunction)RowTable_find, METH_VARARGS, NULL},
    {"read", (PyCFunction)RowTable_read, METH_VARARGS, NULL},
    {"heaviest", (PyCFunction)RowTable_heaviest, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot row_table_slots[] = {
    {Py_tp_new, RowTable_new},
    {Py_tp_dealloc, RowTable_dealloc},
    {Py_tp_methods, row_table_methods},
    {Py_tp_doc, "The words and pairs of a text model by their rows."},
    {0, NULL},
};

static PyType_Spec row_table_spec = {
    "gatepost._speedups.RowTable", sizeof(RowTable), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, row_table_slots,
};

static PyMethodDef letters_methods[] = {
    {"read", (PyCFunction)Letters_read, METH_VARARGS,
     "read(words, index, most, near, beside): number and sum of the weights of stems and pairs, and of concepts."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot letters_slots[] = {
    {Py_tp_new, Letters_new},
    {Py_tp_dealloc, Letters_dealloc},
    {Py_tp_methods, letters_methods},
    {Py_tp_doc, "The second reader of the text model: English stems of words, and their weights."},
    {0, NULL},
};

static PyType_Spec letters_spec = {
    "gatepost._speedups.Letters", sizeof(Letters), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, letters_slots,
};

static PyMethodDef phrase_index_methods[] = {
    {"find", (PyCFunction)PhraseIndex_find, METH_O, NULL},
    {"search_message", (PyCFunction)PhraseIndex_search_message, METH_VARARGS,
     "search_message(names, subject, texts, table, longer, fold): a message's text, folded, its phrases and its signs."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot phrase_index_slots[] = {
    {Py_tp_new, PhraseIndex_new},
    {Py_tp_dealloc, PhraseIndex_dealloc},
    {Py_tp_methods, phrase_index_methods},
    {Py_tp_doc, "The places of phrases in a text, from what `pack_phrases` made."},
    {0, NULL},
};

static PyType_Spec phrase_index_spec = {
    "gatepost._speedups.PhraseIndex", sizeof(PhraseIndex), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    phrase_index_slots,
};

static PyMethodDef concept_index_methods[] = {
    {"find", (PyCFunction)ConceptIndex_find, METH_VARARGS, NULL},
    {"features", (PyCFunction)ConceptIndex_features, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot concept_index_slots[] = {
    {Py_tp_new, ConceptIndex_new},
    {Py_tp_dealloc, ConceptIndex_dealloc},
    {Py_tp_methods, concept_index_methods},
    {Py_tp_doc, "The concepts of words, from what `pack_concepts` made."},
    {0, NULL},
};

static PyType_Spec concept_index_spec = {
    "gatepost._speedups.ConceptIndex", sizeof(ConceptIndex), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    concept_index_slots,
};

static PyMethodDef word_array_methods[] = {
    {"read", (PyCFunction)WordArray_read, METH_VARARGS | METH_CLASS,
     "read(names, subject, texts, table, specials, most_of_name, room, most): the words of a message; or None."},
    {"smallest_hashes", (PyCFunction)WordArray_smallest_hashes, METH_VARARGS, "smallest_hashes(run, count, least)"},
    {"row", (PyCFunction)WordArray_row, METH_VARARGS, "row(most, most_rest, others): the packed feature row; or None."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef word_array_attributes[] = {
    {"names", (getter)WordArray_names, NULL, "The words of senders' names.", NULL},
    {"subject", (getter)WordArray_subject, NULL, "The words of the subject.", NULL},
    {"body", (getter)WordArray_body, NULL, "The words of the body.", NULL},
    {"total", (getter)WordArray_total, NULL, "How many words there are in all.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot word_array_slots[] = {
    {Py_tp_new, WordArray_new},
    {Py_tp_dealloc, WordArray_dealloc},
    {Py_tp_methods, word_array_methods},
    {Py_tp_getset, word_array_attributes},
    {Py_sq_length, WordArray_length},
    {Py_tp_doc, "The words of one message: of senders' names, of the subject and of the body."},
    {0, NULL},
};

static PyType_Spec word_array_spec = {
    "gatepost._speedups.WordArray", sizeof(WordArray), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    word_array_slots,
};

static int execute(PyObject *module)
{
    fill_crc_table();
    fill_sorts();
    fill_mark_starts();
    fill_base64_values();
    fill_page_names();
    if (intern_attributes() < 0 || intern_page_names() < 0 || intern_flat_attributes() < 0
        || intern_text_attributes() < 0)
        return -1;
    PyType_Spec *specs[] = {&word_array_spec, &row_table_spec, &letters_spec, &phrase_index_spec, &concept_index_spec};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        PyObject *type = PyType_FromSpec(specs[i]);
        if (!type || PyModule_AddType(module, (PyTypeObject *)type) < 0) {
            Py_XDECREF(type);
            return -1;
        }
        Py_DECREF(type);
    }
    return 0;
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, execute},
    {0, NULL},
};

static PyMethodDef functions[] = {
    {"smallest_hashes", smallest_hashes, METH_VARARGS,
     "smallest_hashes(words, run, count, least): of the words of letters alone, if there are so many."},
    {"feature_row", feature_row, METH_VARARGS,
     "feature_row(words, most, others): the packed row of the first different words and of other names; or None."},
    {"pack_phrases", pack_phrases, METH_VARARGS,
     "pack_phrases(phrases, words): an index as bytes; of (before, after, left, right), and (word, skip, is_open, phrase)."},
    {"pack_concepts", pack_concepts, METH_VARARGS,
     "pack_concepts(terms, concepts): an index as bytes; of (words, number of the concept, is_open), the longest first."},
    {"split_words", split_words, METH_O, "split_words(text): runs of letters and digits, and each of five signs."},
    {"read_page", read_page, METH_VARARGS,
     "read_page(source, rules, colours, parse, resolve, parse_colour): texts, loose pieces, reasons, events, nodes; or None."},
    {"split_fields", split_fields, METH_VARARGS,
     "split_fields(source, start, window, largest, most, make, decode): fields, body, and whether CR or LF is bare."},
    {"read_ordinary", read_ordinary, METH_VARARGS,
     "read_ordinary(source, Field, Headers, Part, decode, known, describe, read_leaf): header, body, parts, work; or None."},
    {"find_delimiter", find_delimiter, METH_VARARGS,
     "find_delimiter(source, at, opened, closed, prefixes, most): the place, how many were taken, and if it is one."},
    {"find_content_field", find_content_field, METH_VARARGS,
     "find_content_field(source, start, end): where `content-t` begins between two places, in any case; or -1."},
    {"squeeze", squeeze, METH_VARARGS, "squeeze(text, with_breaks): the text with runs of blanks as one."},
    {"edge_words", edge_words, METH_O, "edge_words(pieces): words at the edges of pieces that hold a dot or a colon."},
    {"has_invisible", has_invisible, METH_O, "has_invisible(text): whether a character without width is in it."},
    {"ordinary_addresses", ordinary_addresses, METH_VARARGS,
     "ordinary_addresses(text, make): the addresses of a list in plain ASCII; or None."},
    {"read_hop", read_hop, METH_VARARGS,
     "read_hop(value, most, make): what a Received field in ASCII says of one hop, made by a class; or None."},
    {"transliterate", transliterate, METH_VARARGS,
     "transliterate(text, table, longer): the text with each character as a table says; or None."},
    {"fold_ascii", fold_ascii, METH_O, "fold_ascii(text): ASCII text as phrases are compared."},
    {"link_words", link_words, METH_VARARGS, "link_words(text, endings): start and end of words that may hold a link."},
    {"find_targets", find_targets, METH_VARARGS,
     "find_targets(text, endings, endings_with_path, match): the links that are written in a text; or None."},
    {"make_links", make_links, METH_VARARGS,
     "make_links(items, where, source, found, room, make, is_wrapping, read_odd): how many ordinary links were kept."},
    {"find_segments", find_segments, METH_VARARGS,
     "find_segments(source, limit, most): start and end of lines of dashes before a content field."},
    {"spelled_places", spelled_places, METH_O,
     "spelled_places(text): where words with a mark inside may begin, and whether letters stand with gaps."},
    {"field_signs", field_signs, METH_VARARGS,
     "field_signs(fields, table, spelled, odd): what a table says of the names of fields, and whether one is odd."},
    {"content_signs", content_signs, METH_O,
     "content_signs(content): which readers of files may find something in the bytes of a text, and what it is."},
    {"look_for_cells", look_for_cells, METH_O,
     "look_for_cells(content): whether a text may draw a code with cells: no (0), yes (1), by cells with a letter (2)."},
    {"has_latent_marks", has_latent_marks, METH_O,
     "has_latent_marks(text): whether a page may hold what acts once it is read a second time."},
    {"is_harmless", is_harmless, METH_VARARGS,
     "is_harmless(html, longest, most): whether tags of a page stand apart, are short, and few format text."},
    {"is_well_nested", is_well_nested, METH_VARARGS,
     "is_well_nested(html, deepest, most): whether no parser has more elements of a harmless page open than so many."},
    {"has_long_run", has_long_run, METH_VARARGS, "has_long_run(text, least): so many small letters and blanks in a row."},
    {"url_signs", url_signs, METH_O, "url_signs(links): what of the URLs of links checks may find something in."},
    {"may_spell_number", may_spell_number, METH_O,
     "may_spell_number(text): whether a folded text may hold a telephone number that is written for people only."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "gatepost._speedups", NULL, 0, functions, module_slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__speedups(void)
{
    return PyModuleDef_Init(&definition);
}
