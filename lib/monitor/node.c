/* node: see node.h. Words only: nothing here measures or decides. */
#include "monitor/node.h"

#include <string.h>

static const char *const role_word[] = {"worker", "server"};
static const char *const state_word[] = {"starting", "up", "hung", "down"};

const char *node_role_name(enum node_role role)
{
	return role_word[role];
}

const char *node_state_name(enum node_state state)
{
	return state_word[state];
}

static int word_of(const char *const *words, int count, const char *word)
{
	for (int i = 0; i < count; i++)
		if (strcmp(words[i], word) == 0)
			return i;
	return -1;
}

int node_state_of(const char *word, enum node_state *state)
{
	int i = word_of(state_word, 4, word);
	if (i < 0)
		return -1;
	*state = (enum node_state)i;
	return 0;
}

static int monitor_node_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Compares two runs of digits by value, of any length; *a and *b end behind them. */
static int compare_digits(const char **a, const char **b)
{
	while (**a == '0')
		(*a)++;
	while (**b == '0')
		(*b)++;
	size_t n = 0, m = 0;
	while (monitor_node_is_digit((*a)[n]))
		n++;
	while (monitor_node_is_digit((*b)[m]))
		m++;
	int order = n != m ? (n < m ? -1 : 1) : memcmp(*a, *b, n);
	*a += n;
	*b += m;
	return order;
}

int node_role_in(const struct record *r, enum node_role *role, struct error *err)
{
	const char *word;
	if (record_text(r, "role", &word, err) != 0)
		return -1;
	int i = word_of(role_word, NODE_ROLES, word);
	if (i < 0)
		return error_set(err, ERROR_DATA, NULL, "role=: '%.80s' is none of worker|server",
				 word);
	*role = (enum node_role)i;
	return 0;
}

int node_name_in(const struct record *r, enum node_role *role, const char **id, struct error *err)
{
	return node_role_in(r, role, err) != 0 ? -1 : record_id(r, "id", id, err);
}

int node_id_compare(const char *a, const char *b)
{
	const char *p = a, *q = b;
	while (*p && *q) {
		if (monitor_node_is_digit(*p) && monitor_node_is_digit(*q)) {
			int order = compare_digits(&p, &q);
			if (order)
				return order;
		} else {
			if (*p != *q)
				return (unsigned char)*p < (unsigned char)*q ? -1 : 1;
			p++, q++;
		}
	}
	if (*p || *q)
		return *p ? 1 : -1;
	return strcmp(a, b);
}
