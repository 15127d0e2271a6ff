/* Insertion and removal, each with one way up that rebalances. A node keeps its balance in the two
 * lowest bits of its parent's address. */
#include "base/tree.h"

void mend_tree_init(mend_tree *tree, mend_tree_compare compare)
{
    assert(compare != NULL);
    tree->root = NULL;
    tree->compare = compare;
    tree->count = 0;
}

static void set_parent(mend_tree_node *node, const mend_tree_node *parent)
{
    mend_tree_set(node, parent, mend_tree_balance(node));
}

static void set_balance(mend_tree_node *node, int balance)
{
    assert(balance >= -1);
    assert(balance <= 1);
    mend_tree_set(node, mend_tree_parent(node), balance);
}

static int side_of(const mend_tree_node *parent, const mend_tree_node *node)
{
    return parent->child[1] == node;
}

/* Puts `replacement` (may be NULL) in the place of `node`. */
static void replace_in_parent(mend_tree_node **root, const mend_tree_node *node,
                              mend_tree_node *replacement)
{
    mend_tree_node *parent = mend_tree_parent(node);
    if (parent == NULL) {
        assert(*root == node);
        *root = replacement;
    } else {
        assert(parent->child[side_of(parent, node)] == node);
        parent->child[side_of(parent, node)] = replacement;
    }
    if (replacement != NULL) {
        set_parent(replacement, parent);
    }
}

/* Rotates the subtree so that node's child on `side` becomes its root. Returns the new root. */
static mend_tree_node *rotate(mend_tree_node **root, mend_tree_node *node, int side)
{
    mend_tree_node *risen = node->child[side];
    mend_tree_node *inner = risen->child[1 - side];
    replace_in_parent(root, node, risen);
    risen->child[1 - side] = node;
    set_parent(node, risen);
    node->child[side] = inner;
    if (inner != NULL) {
        set_parent(inner, node);
    }
    return risen;
}

/* Rebalances a node with a difference in height of two. Returns the new root of its subtree. */
static mend_tree_node *rebalance(mend_tree_node **root, mend_tree_node *node, int side)
{
    int sign = side ? 1 : -1;
    mend_tree_node *heavy = node->child[side];
    if (mend_tree_balance(heavy) == -sign) {
        mend_tree_node *inner = heavy->child[1 - side];
        int inner_balance = mend_tree_balance(inner);
        rotate(root, heavy, 1 - side);
        rotate(root, node, side);
        set_balance(node, inner_balance == sign ? -sign : 0);
        set_balance(heavy, inner_balance == -sign ? sign : 0);
        set_balance(inner, 0);
        return inner;
    }
    rotate(root, node, side);
    bool was_level = mend_tree_balance(heavy) == 0;
    set_balance(node, was_level ? sign : 0);
    set_balance(heavy, was_level ? -sign : 0);
    return heavy;
}

void mend_tree_insert(mend_tree *tree, mend_tree_node *node)
{
    mend_tree_insert_by(tree, node, tree->compare);
}

void mend_tree_attach(mend_tree_node **root, mend_tree_node *node, mend_tree_node *parent, int side)
{
    assert(side == 0 || side == 1);
    assert((parent != NULL ? parent->child[side] : *root) == NULL);
    assert(parent != node);
    *node = (mend_tree_node){0};
    mend_tree_set(node, parent, 0);
    if (parent == NULL) {
        *root = node;
    } else {
        parent->child[side] = node;
    }
    while (parent != NULL) {
        side = side_of(parent, node);
        int before = mend_tree_balance(parent);
        int balance = before + (side ? 1 : -1);
        if (before != 0 && balance != 0) {
            rebalance(root, parent, side);
            return;
        }
        set_balance(parent, balance);
        if (balance == 0) {
            return;
        }
        node = parent;
        parent = mend_tree_parent(node);
    }
}

/* The subtree on `side` of `parent` has become lower by one. */
static void shrunk(mend_tree_node **root, mend_tree_node *parent, int side)
{
    while (parent != NULL) {
        int before = mend_tree_balance(parent);
        int balance = before + (side ? -1 : 1);
        if (before == 0) {
            set_balance(parent, balance);
            return;
        }
        if (balance != 0) {
            parent = rebalance(root, parent, 1 - side);
            if (mend_tree_balance(parent) != 0) {
                return;
            }
        } else {
            set_balance(parent, 0);
        }
        mend_tree_node *above = mend_tree_parent(parent);
        if (above != NULL) {
            side = side_of(above, parent);
            assert(above->child[side] == parent);
        }
        parent = above;
    }
}

void mend_tree_detach(mend_tree_node **root, mend_tree_node *node)
{
    if (node->child[0] == NULL || node->child[1] == NULL) {
        mend_tree_node *only = node->child[node->child[0] == NULL];
        mend_tree_node *parent = mend_tree_parent(node);
        int side = parent != NULL && side_of(parent, node);
        replace_in_parent(root, node, only);
        shrunk(root, parent, side);
        return;
    }
    mend_tree_node *heir = node->child[1];
    while (heir->child[0] != NULL) {
        heir = heir->child[0];
    }
    mend_tree_node *lowered = mend_tree_parent(heir);
    assert(lowered != NULL);
    int side = 0;
    if (lowered == node) {
        lowered = heir;
        side = 1;
    } else {
        replace_in_parent(root, heir, heir->child[1]);
        heir->child[1] = node->child[1];
        set_parent(heir->child[1], heir);
    }
    heir->child[0] = node->child[0];
    set_parent(heir->child[0], heir);
    set_balance(heir, mend_tree_balance(node));
    replace_in_parent(root, node, heir);
    shrunk(root, lowered, side);
}

mend_tree_node *mend_tree_outermost(mend_tree_node *node, int side)
{
    while (node != NULL && node->child[side] != NULL) {
        node = node->child[side];
    }
    return node;
}

mend_tree_node *mend_tree_neighbor(const mend_tree_node *node, int side)
{
    if (node->child[side] != NULL) {
        return mend_tree_outermost(node->child[side], 1 - side);
    }
    mend_tree_node *parent = mend_tree_parent(node);
    while (parent != NULL && side_of(parent, node) == side) {
        node = parent;
        parent = mend_tree_parent(node);
    }
    return parent;
}

mend_tree_node *mend_tree_at_or_after(const mend_tree *tree, const mend_tree_node *key)
{
    mend_tree_node *found = NULL;
    for (mend_tree_node *at = tree->root; at != NULL;) {
        bool before = tree->compare(at, key) < 0;
        found = before ? found : at;
        at = at->child[before];
    }
    return found;
}

mend_tree_node *mend_tree_at_or_before(const mend_tree *tree, const mend_tree_node *key)
{
    mend_tree_node *found = NULL;
    for (mend_tree_node *at = tree->root; at != NULL;) {
        bool behind = tree->compare(at, key) > 0;
        found = behind ? found : at;
        at = at->child[!behind];
    }
    return found;
}

static bool node_is_valid(const mend_tree_node *node, int *height)
{
    *height = 0;
    if (node == NULL) {
        return true;
    }
    int heights[2];
    for (int side = 0; side < 2; side++) {
        const mend_tree_node *child = node->child[side];
        if (child != NULL && mend_tree_parent(child) != node) {
            return false;
        }
        if (!node_is_valid(child, &heights[side])) {
            return false;
        }
    }
    *height = 1 + (heights[0] > heights[1] ? heights[0] : heights[1]);
    int balance = mend_tree_balance(node);
    return balance == heights[1] - heights[0] && balance <= 1;
}

bool mend_tree_is_valid(const mend_tree *tree)
{
    int height;
    if (!node_is_valid(tree->root, &height)) {
        return false;
    }
    size_t count = 0;
    const mend_tree_node *previous = NULL;
    for (const mend_tree_node *at = mend_tree_first(tree); at != NULL; at = mend_tree_next(at)) {
        if (previous != NULL && tree->compare(previous, at) >= 0) {
            return false;
        }
        previous = at;
        count++;
    }
    return count == tree->count;
}
