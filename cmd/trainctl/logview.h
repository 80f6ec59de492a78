/* logview: the end of a node's log on the screen of top (curses), new lines as they come. */
#ifndef PACELINE_CMD_TRAINCTL_LOGVIEW_H
#define PACELINE_CMD_TRAINCTL_LOGVIEW_H

#define LOGVIEW_SECONDS 0.5 /* between two looks at the file */

struct logview;

/* A log that is not there, or can't be read, is one of a line that says so. NULL: out of memory. */
struct logview *logview_open(const char *path, const char *id);
void logview_close(struct logview *v); /* NULL is fine */
/* Looks at the file again and draws; the caller erases and refreshes the screen. */
void logview_draw(struct logview *v);
/* 0: that was the last key for it. */
int logview_key(struct logview *v, int key);

#endif
