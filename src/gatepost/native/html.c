/* Pages as lexbor writes them out. Part of `_speedups.c`. */

enum { OPEN_TAG, STYLE_TAG, CLOSE_TAG, COMMENT, NOTHING };

/* A tag or comment with the text before it; `plan` is borrowed from the dictionary of plans. */
typedef struct {
    Py_ssize_t text, start, end;
    PyObject *plan;
    int kind;
} HtmlToken;

typedef struct {
    HtmlToken *items;
    size_t count, room;
} TokenList;

/* What is to be done where an element ends: `entry` is the page's own note of it, or `before` the appearance to return
to, or neither. */
typedef struct {
    PyObject *entry, *before;
    int is_block;
} OpenElement;

typedef struct {
    PyObject *source, *page, *visible, *hidden, *loose, *line_break;
    PyObject *appearance;
    int is_unseen, is_reversed;
    OpenElement *opened;
    size_t depth;
} Walk;

/* A plan is a tuple: is_special, has_end, spacing, is_read, own style or None, what `enter` takes. */
enum { IS_SPECIAL, HAS_END, SPACING, IS_READ, OWN_STYLE, PLAN_SIZE = 6 };

static int plan_flag(PyObject *plan, int which)
{
    return PyTuple_GET_ITEM(plan, which) == Py_True;
}

static int add_token(TokenList *list, HtmlToken token)
{
    if (list->count == list->room) {
        size_t more = list->room ? list->room * 2 : 256;
        HtmlToken *larger = more > MAX_ITEMS ? NULL : PyMem_Realloc(list->items, more * sizeof *larger);
        if (!larger) {
            PyErr_NoMemory();
            return -1;
        }
        list->items = larger;
        list->room = more;
    }
    list->items[list->count++] = token;
    return 0;
}

static Py_UCS4 char_at(PyObject *text, Py_ssize_t length, Py_ssize_t at)
{
    return at < length ? PyUnicode_READ_CHAR(text, at) : 0;
}

/* Where a comment that begins at `start` (after `<!--`) ends; -1 where it does not. */
static Py_ssize_t comment_end(PyObject *source, Py_ssize_t length, Py_ssize_t start)
{
    for (Py_ssize_t at = start + 2; at < length; at++) {
        at = PyUnicode_FindChar(source, '>', at, length, 1);
        if (at < 0)
            return at;
        if (PyUnicode_READ_CHAR(source, at - 1) == '-' && PyUnicode_READ_CHAR(source, at - 2) == '-')
            return at - 2;
    }
    return -1;
}

/* The plan of a start tag, made by `plan` when it is first met; borrowed. NULL with an exception for an error. */
static PyObject *find_plan(PyObject *source, Py_ssize_t start, Py_ssize_t end, PyObject *plans, PyObject *plan)
{
    PyObject *text = PyUnicode_Substring(source, start, end);
    if (!text)
        return NULL;
    PyObject *found = PyDict_GetItemWithError(plans, text);
    if (!found && !PyErr_Occurred()) {
        PyObject *made = PyObject_CallOneArg(plan, text);
        if (made && made != Py_None && (!PyTuple_Check(made) || PyTuple_GET_SIZE(made) != PLAN_SIZE)) {
            PyErr_SetString(PyExc_TypeError, "a plan is a tuple of six");
            Py_CLEAR(made);
        }
        if (made && PyDict_SetItem(plans, text, made) == 0)
            found = made;
        Py_XDECREF(made);
    }
    Py_DECREF(text);
    return found;
}

/* Split a document into tokens. 0 where that is done, 1 where it is odd and its tree must be walked, -1 for an error. */
static int split_source(PyObject *source, PyObject *plans, PyObject *plan, PyObject *style_end, TokenList *list)
{
    Py_ssize_t length = PyUnicode_GET_LENGTH(source), at = 0, depth = 0;
    while (at < length) {
        HtmlToken token = {at, 0, 0, NULL, NOTHING};
        Py_ssize_t open = PyUnicode_FindChar(source, '<', at, length, 1);
        if (open < 0) {
            token.start = token.end = length;
            return add_token(list, token) < 0 ? -1 : depth != 0;
        }
        token.start = open;
        Py_UCS4 first = char_at(source, length, open + 1);
        if (first == '!' && char_at(source, length, open + 2) == '-' && char_at(source, length, open + 3) == '-') {
            Py_ssize_t end = comment_end(source, length, open + 4);
            if (end < 0)
                return 1;
            token.kind = COMMENT;
            token.end = end;
            at = end + 3;
        } else {
            Py_ssize_t end = PyUnicode_FindChar(source, '>', open + 1, length, 1);
            if (end < 0)
                return 1;
            token.end = end;
            at = end + 1;
            if (first == '/') {
                token.kind = CLOSE_TAG;
                if (--depth < 0)
                    return 1;
            } else if (first != '!') {
                token.plan = find_plan(source, open + 1, end, plans, plan);
                if (!token.plan)
                    return -1;
                if (token.plan == Py_None)
                    return 1;
                Py_ssize_t name = end - open - 1;
                int is_style = name >= 5 && (name == 5 || char_at(source, length, open + 6) == ' ');
                for (Py_ssize_t i = 0; is_style && i < 5; i++)
                    is_style = char_at(source, length, open + 1 + i) == (Py_UCS4) "style"[i];
                token.kind = is_style ? STYLE_TAG : OPEN_TAG;
                if (is_style) {
                    Py_ssize_t close = PyUnicode_Find(source, style_end, at, length, 1);
                    if (close < 0)
                        return close == -1 ? 1 : -1;
                    at = close + PyUnicode_GET_LENGTH(style_end);
                } else if (plan_flag(token.plan, HAS_END)) {
                    depth++;
                }
            }
        }
        if (add_token(list, token) < 0)
            return -1;
    }
    return depth != 0;
}

static PyObject *name_appearance, *name_unseen, *name_reversed, *name_anchors, *name_enter, *name_leave, *name_add_text,
    *name_read_comment, *name_with_style;

static int is_true_attribute(PyObject *object, PyObject *name)
{
    PyObject *value = PyObject_GetAttr(object, name);
    int result = value ? PyObject_IsTrue(value) : -1;
    Py_XDECREF(value);
    return result;
}

/* Take over an appearance (a new reference), or an error where it is NULL. */
static int set_appearance(Walk *walk, PyObject *appearance)
{
    if (!appearance)
        return -1;
    if (walk->appearance == appearance) {
        Py_DECREF(appearance);
        return 0;
    }
    Py_XSETREF(walk->appearance, appearance);
    walk->is_unseen = is_true_attribute(appearance, name_unseen);
    walk->is_reversed = is_true_attribute(appearance, name_reversed);
    return walk->is_unseen < 0 || walk->is_reversed < 0 ? -1 : 0;
}

static int append_spacing(Walk *walk, PyObject *spacing)
{
    return PyList_Append(walk->is_unseen ? walk->hidden : walk->visible, spacing);
}

static int walk_text(Walk *walk, Py_ssize_t start, Py_ssize_t end)
{
    PyObject *text = decode_piece(walk->source, start, end);
    if (!text)
        return -1;
    int result;
    if (walk->is_unseen || walk->is_reversed) {
        PyObject *done = PyObject_CallMethodOneArg(walk->page, name_add_text, text);
        result = done ? 0 : -1;
        Py_XDECREF(done);
    } else {
        result = PyList_Append(walk->visible, text);
        Py_ssize_t length = PyUnicode_GET_LENGTH(text);
        if (!result
            && (PyUnicode_FindChar(text, '.', 0, length, 1) >= 0 || PyUnicode_FindChar(text, ':', 0, length, 1) >= 0)) {
            result = is_true_attribute(walk->page, name_anchors);
            if (!result)
                result = PyList_Append(walk->loose, text);
            else if (result > 0)
                result = 0;
        }
    }
    Py_DECREF(text);
    return result;
}

/* End an element; its references are given up. */
static int walk_end(Walk *walk, OpenElement element)
{
    int result = 0;
    if (element.entry) {
        PyObject *done = PyObject_CallMethodOneArg(walk->page, name_leave, element.entry);
        Py_DECREF(element.entry);
        Py_XDECREF(done);
        return done ? set_appearance(walk, PyObject_GetAttr(walk->page, name_appearance)) : -1;
    }
    if (element.is_block)
        result = append_spacing(walk, walk->line_break);
    if (element.before) {
        if (!result)
            result = PyObject_SetAttr(walk->page, name_appearance, element.before);
        if (!result)
            result = set_appearance(walk, Py_NewRef(element.before));
        Py_DECREF(element.before);
    }
    return result;
}

/* Begin an element; whether what is inside it is read, -1 for an error. */
static int walk_start(Walk *walk, PyObject *plan, OpenElement *element)
{
    *element = (OpenElement){NULL, NULL, 0};
    if (plan_flag(plan, IS_SPECIAL)) {
        PyObject *done = PyObject_CallMethodOneArg(walk->page, name_enter, PyTuple_GET_ITEM(plan, PLAN_SIZE - 1));
        if (!done || !PyTuple_Check(done) || PyTuple_GET_SIZE(done) != 2) {
            if (done)
                PyErr_SetString(PyExc_TypeError, "enter returns a tuple of two");
            Py_XDECREF(done);
            return -1;
        }
        if (PyTuple_GET_ITEM(done, 0) != Py_None)
            element->entry = Py_NewRef(PyTuple_GET_ITEM(done, 0));
        int is_read = PyTuple_GET_ITEM(done, 1) == Py_True;
        Py_DECREF(done);
        return set_appearance(walk, PyObject_GetAttr(walk->page, name_appearance)) < 0 ? -1 : is_read;
    }
    PyObject *own = PyTuple_GET_ITEM(plan, OWN_STYLE), *spacing = PyTuple_GET_ITEM(plan, SPACING);
    if (own != Py_None) {
        PyObject *inside = PyObject_CallMethodOneArg(walk->appearance, name_with_style, own);
        if (!inside)
            return -1;
        if (inside == walk->appearance) {
            Py_DECREF(inside);
        } else {
            element->before = Py_NewRef(walk->appearance);
            if (PyObject_SetAttr(walk->page, name_appearance, inside) < 0) {
                Py_DECREF(inside);
                return -1;
            }
            if (set_appearance(walk, inside) < 0)
                return -1;
        }
    }
    element->is_block = spacing == walk->line_break;
    if (PyUnicode_GET_LENGTH(spacing) && append_spacing(walk, spacing) < 0)
        return -1;
    return plan_flag(plan, IS_READ);
}

/* Go through the tokens; the number of nodes, -1 for an error. At most `most` nodes are read. */
static Py_ssize_t walk_tokens(Walk *walk, const TokenList *list, Py_ssize_t most)
{
    Py_ssize_t nodes = 0;
    int is_read = 1;
    for (size_t i = 0; i < list->count && nodes <= most; i++) {
        const HtmlToken *token = &list->items[i];
        if (token->text < token->start) {
            nodes++;
            if (is_read && walk_text(walk, token->text, token->start) < 0)
                return -1;
        }
        if (token->kind == CLOSE_TAG) {
            if (walk_end(walk, walk->opened[--walk->depth]) < 0)
                return -1;
            is_read = 1;
        } else if (token->kind == OPEN_TAG || token->kind == STYLE_TAG) {
            OpenElement element;
            nodes++;
            is_read = walk_start(walk, token->plan, &element);
            if (is_read < 0) {
                Py_XDECREF(element.entry);
                Py_XDECREF(element.before);
                return -1;
            }
            if (token->kind == OPEN_TAG && plan_flag(token->plan, HAS_END)) {
                walk->opened[walk->depth++] = element;
            } else {
                if (walk_end(walk, element) < 0)
                    return -1;
                is_read = 1;
            }
        } else if (token->kind == COMMENT) {
            nodes++;
            PyObject *text = PyUnicode_Substring(walk->source, token->start + 4, token->end);
            PyObject *done = text ? PyObject_CallMethodOneArg(walk->page, name_read_comment, text) : NULL;
            Py_XDECREF(text);
            Py_XDECREF(done);
            if (!done)
                return -1;
        }
    }
    return nodes;
}

static PyObject *walk_source(PyObject *self, PyObject *args)
{
    PyObject *source, *plan, *page, *visible, *hidden, *loose, *line_break;
    Py_ssize_t most;
    (void)self;
    if (!PyArg_ParseTuple(args, "UOOO!O!O!Un", &source, &plan, &page, &PyList_Type, &visible, &PyList_Type, &hidden,
                          &PyList_Type, &loose, &line_break, &most))
        return NULL;
    PyObject *plans = PyDict_New(), *style_end = PyUnicode_FromString("</style>"), *result = NULL;
    TokenList list = {NULL, 0, 0};
    Walk walk = {source, page, visible, hidden, loose, line_break, NULL, 0, 0, NULL, 0};
    int is_odd = plans && style_end ? split_source(source, plans, plan, style_end, &list) : -1;
    if (is_odd == 1) {
        result = PyLong_FromLong(-1);
    } else if (is_odd == 0) {
        walk.opened = PyMem_Malloc((list.count + 1) * sizeof *walk.opened);
        if (!walk.opened)
            PyErr_NoMemory();
        else if (set_appearance(&walk, PyObject_GetAttr(page, name_appearance)) == 0) {
            Py_ssize_t nodes = walk_tokens(&walk, &list, most);
            result = nodes < 0 ? NULL : PyLong_FromSsize_t(nodes);
        }
    }
    while (walk.depth) {
        Py_XDECREF(walk.opened[--walk.depth].entry);
        Py_XDECREF(walk.opened[walk.depth].before);
    }
    PyMem_Free(walk.opened);
    PyMem_Free(list.items);
    Py_XDECREF(walk.appearance);
    Py_XDECREF(plans);
    Py_XDECREF(style_end);
    return result;
}

static int intern_names(void)
{
    struct {
        PyObject **name;
        const char *text;
    } names[] = {
        {&name_appearance, "appearance"}, {&name_unseen, "unseen"},       {&name_reversed, "reversed"},
        {&name_anchors, "anchors"},       {&name_enter, "enter"},         {&name_leave, "leave"},
        {&name_add_text, "add_text"},     {&name_read_comment, "read_comment"}, {&name_with_style, "with_style"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!*names[i].name && !(*names[i].name = PyUnicode_InternFromString(names[i].text)))
            return -1;
    return 0;
}
