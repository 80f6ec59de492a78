/*
 * The life of a batch (paceline-protocol(7)) as a Spin model: two workers, the lead with part 0, a
 * second part, shardd and a supervisor; N rows, one epoch.  Parameters are the audit model's: of
 * each part the set of rows that are in it.
 *
 *     spin -DCRASH=17 -search -O2 batch.pml          worker 0 and shardd die, each at any step
 *     spin -DLIES=1 -DFAULT=1 -search -O2 batch.pml  a fault: it must find an error
 *
 * tests/model/run has the configurations.  Checked: no row is applied twice; at every cut the queue
 * and both parts have the same rows; in the end the last cut has all of them; nobody waits for
 * ever; nobody starts over without end; nobody's push is refused because of another's.
 *
 * A client does nothing between a request and its answer, so requests are no messages here: the
 * client stands at one (at[]), and the step of the daemon that serves it moves the client on.  What
 * a client had asked when it died may still be served, at any later time, or never.  What the lead
 * can do by itself it does before it hears the next request (QUIET), as its code does.
 */
#ifndef N
#define N 2      /* rows */
#endif
#ifndef SYNC
#define SYNC 0   /* 0 BSP, 1 ASP, 2 BSP with one backup worker */
#endif
#ifndef CUTS
#define CUTS 0   /* checkpoints at any time, besides the last one */
#endif
/* CRASH, a sum: each dies once, at any step. A power cut ends all of them, and of what shardd has
 * not synced any part from the end is gone; without it shardd loses nothing. */
#define WORKER_0 1
#define WORKER_1 2
#define LEAD 4
#define PART_1 8
#define SHARDD 16
#define SUPERVISOR 32
#define POWER 64
#ifndef CRASH
#define CRASH 0
#endif
#ifndef HANG
#define HANG 0   /* worker 1 does not move, from any step on: 1 it is killed; 2 the lead lets go of
		    it, a person says `fail` of it, and it moves again */
#endif
#ifndef LIES
#define LIES 0   /* so many pushes of worker 1 that it must not send: a row again under another
		    sequence, a row of another's, one row twice; its part at one server only */
#endif
#ifndef FAULT
#define FAULT 0
#endif
/* FAULT: what the protocol leaves out or does wrong.
 *  1 shardd is asked before the servers have said `hold`
 *  2 what a server holds is replaced by what its worker pushes
 *  3 shardd judges a push row by row
 *  4 one refusal refuses the unit
 *  5 a settle that is said again is judged anew
 *  6 what shardd refused is applied
 *  7 late pushes are applied
 *  8 `load` names no incarnation
 *  9 servers start with the latest cut, not with the intent's
 * 10 after a power cut servers go back to the cut, and the queue does not
 * 11 a settle is not synced, and only shardd's machine loses power
 * 12 resuming does not tell what is in hand
 * 13 a row twice in a push is not seen
 * 14 `fence` does not wait for a settle, and shardd does not compare its generations
 * 15 a part writes its cut before it does what it was told earlier
 * 16 a settle of another incarnation is judged
 */
#define BSP (SYNC != 1)
#define BACKUP (SYNC == 2)
#define ALL ((1 << N) - 1)

/* A push: LATE, TWICE, LIE, sequence, generation (3 bits), rows (3 bits); 0 is none. */
#define PUSH_OF(g, q, r) (((q) << 6) | ((g) << 3) | (r))
#define ROWS(p) ((p) & 7)
#define GEN(p) (((p) >> 3) & 7)
#define LIE 128
#define TWICE 256
#define LATE 512

/* ---- shardd ---- */
byte todo = ALL, hand[2], done;
byte force[2], newest[2];        /* of each worker the generation in force, and the last one */
byte incarnation = 1;
byte number = 2, refusals;       /* of the last settle of this incarnation (2: none); its answer */
bool loose, stale;               /* lines may be lost with the power; they may have been */
#if (CRASH & POWER) || FAULT == 11
#define DISK 1
byte disk_todo = ALL, disk_hand[2], disk_done, disk_number = 2, disk_refusals;
#else
#define DISK 0
#endif

/* ---- what the lead asks of shardd: two lives of the lead, one of which runs ---- */
mtype = { NOTHING, SETTLE, SETTLED, SAVE, SAVED, OUTDATED };
mtype ask[2] = NOTHING;
byte ask_incarnation[2];
bool ask_number[2];
short ask_push[4];               /* 2 * life + worker */
byte life;

/* ---- the lead, with part 0 ---- */
bool up[2] = 1;                  /* the lead, part 1 */
byte rows[2];                    /* that are in part 0, in part 1 */
byte lead_inc = 1, opened, applied;
mtype = { OUT, JOINED, ACTIVE };
mtype state[2] = OUT;
byte member[2], seen[2];         /* of each worker the generation that takes part, and the newest */
byte fenced[2], throw_to[2];     /* generations up to it are refused; are to be thrown away */
short held[2], sent[2];
byte refused;                    /* bits: of those that are sent */
bool fence_due[2], is_unit, settle_number, expects = BSP;
mtype = { OPEN, HOLDING, SETTLING, REFUSING, KNOWN };
mtype phase = OPEN;
mtype = { NONE, WANTED, SAVING, WRITING };
mtype cut = NONE;

/* ---- part 1 ---- */
mtype = { APPLY, THROW, CUT };
chan orders = [6] of { mtype, short, short };    /* of the lead */
short staged[4], staged_lie[2];                  /* SLOT(worker, generation) */
byte holds;                                      /* bits of staged; 16, 32: of staged_lie */
byte thrown[2], part_inc = 1, part_applied;

/* ---- checkpoints; the last one and the supervisor's intent are durable ---- */
byte cut_queue, cut_rows[2], new_queue, new_rows[2], cuts;
bool is_written;                                 /* part 1's new one */
bool intent;
byte intent_queue, intent_rows[2];

/* ---- the supervisor ---- */
mtype = { LOOKS, FENCE, FENCED, FAIL, LOAD, START_0, START_1, CLEAR };
mtype step = LOOKS, old_step = LOOKS;            /* old: what one that died had asked */
byte about, old_about;                           /* a worker, or a cut's queue */
byte with, old_with;                             /* its generation, or the incarnation */
bool finished;

/* ---- clients: workers 0 and 1, and another life of each ---- */
mtype = { HELLO, GET, DOOR, RESUME, JOIN, JOINING, STAGE, PUSH, PUSHED, LEAVE, REFUSED, END };
mtype at[4] = HELLO;
byte gen[4], inc[4], row[4], iteration[4];
bool sequence[4], takes_part[4];
mtype = { GONE, RUNS, ASKED, STANDS, GHOST };
mtype how[4] = GONE;             /* ASKED, STANDS: it does not move; ASKED, GHOST: may be served */
byte deaf;                       /* bits: shardd will die before they hear its answer */
byte hung;                       /* 1 worker 1 does not move, 2 it is given up, 3 it moves again */
byte lies, lying;
short lie;

byte died;                       /* of CRASH */
hidden byte i, j, k, m;
hidden short p, q;

#define W(c) ((c) & 1)
#define SLOT(w, g) ((w) + 2 * ((g) & 1))
#define BIT(n) (1 << (n))
#define ASKS(c, what) (at[c] == what && (how[c] == RUNS || how[c] == ASKED || how[c] == GHOST) && \
	!(deaf & BIT(c)))
#define LIVES(c) (how[c] == RUNS || how[c] == ASKED || how[c] == STANDS)
#define TO_START(w) (!LIVES(w) && !LIVES((w) + 2) && (how[w] == GONE || how[(w) + 2] == GONE))
#define WILL_DIE(what) ((CRASH & (what)) && !(died & (what)))

inline forget(c) {
	at[c] = HELLO; how[c] = GONE; gen[c] = 0; inc[c] = 0; row[c] = 0; iteration[c] = 0;
	sequence[c] = 0; takes_part[c] = 0
}
/* What c asked is served; this it asks next. */
inline next(c, where) {
	if
	:: how[c] == GHOST -> forget(c)
	:: how[c] == ASKED -> how[c] = STANDS; at[c] = where
	:: else -> at[c] = where
	fi
}
inline anew(c) {
	gen[c] = 0; inc[c] = 0; row[c] = 0; iteration[c] = 0; sequence[c] = 0; takes_part[c] = 0;
	next(c, HELLO)
}
/* It leaves the lead, and says hello for a new generation. */
inline refuse(c) {
	assert(CRASH || HANG || (LIES && W(c) == 1));
	if :: takes_part[c] -> next(c, REFUSED) :: else -> anew(c) fi
}

/* ---- shardd ---- */
inline sync() {
#if DISK
	disk_todo = todo; disk_hand[0] = hand[0]; disk_hand[1] = hand[1]; disk_done = done;
	disk_number = number; disk_refusals = refusals
#else
	skip
#endif
}
/* The kernel may have written it to the disk by itself. */
inline sync_or_not() {
#if DISK
	if
	:: sync()
	:: loose && (WILL_DIE(POWER) || FAULT == 11) -> skip
	fi
#else
	skip
#endif
}
inline lose_power() {
#if DISK
	todo = disk_todo; hand[0] = disk_hand[0]; hand[1] = disk_hand[1]; done = disk_done;
	number = disk_number; refusals = disk_refusals
#else
	skip
#endif
}
inline give_back(w) { todo = todo | hand[w]; hand[w] = 0 }
inline fail(w) { force[w] = 0; give_back(w); sync() }
inline load(queue) {
	incarnation++; assert(incarnation < 8);
	done = queue; todo = ALL & ~queue; hand[0] = 0; hand[1] = 0; force[0] = 0; force[1] = 0;
	number = 2; refusals = 0; loose = 0; stale = 0; sync()
}
#define IN_FORCE(w, push) (GEN(push) == force[w] || FAULT == 14)
#define IN_HAND(w, push) (IN_FORCE(w, push) && !(ROWS(push) & ~hand[w]))
/* A push is taken or refused as a whole. */
inline judge(w, push) {
	if
	:: push == 0
	:: push != 0 && (push & LATE) ->
		if
		:: IN_HAND(w, push) -> hand[w] = hand[w] & ~ROWS(push); todo = todo | ROWS(push)
		:: else
		fi
	:: push != 0 && !(push & LATE) && IN_HAND(w, push) && (!(push & TWICE) || FAULT == 13) ->
		hand[w] = hand[w] & ~ROWS(push); done = done | ROWS(push)
	:: else ->
		assert((LIES && w == 1) || GEN(push) != force[w]);      /* its own fault */
		if
		:: FAULT == 3 && IN_FORCE(w, push) ->
			done = done | (ROWS(push) & hand[w]); hand[w] = hand[w] & ~ROWS(push)
		:: else
		fi;
		refusals = refusals | BIT(w)
	fi
}

/* A worker's conversation. */
proctype Shardd(byte c) {
end:	do
	:: atomic { ASKS(c, HELLO) && !stale ->
		d_step { give_back(W(c)); newest[W(c)]++; assert(newest[W(c)] < 8);
			force[W(c)] = newest[W(c)]; sync() }
		if
		:: gen[c] = newest[W(c)]; inc[c] = incarnation; next(c, GET)
		:: WILL_DIE(SHARDD) && how[c] == RUNS -> deaf = deaf | BIT(c)
		fi }
	:: atomic { ASKS(c, GET) && !stale && force[W(c)] == gen[c] && todo ->
		d_step { i = 0; do :: todo & BIT(i) -> break :: else -> i++ od;
			todo = todo & ~BIT(i); hand[W(c)] = hand[W(c)] | BIT(i) }
		sync_or_not();
		if
		:: row[c] = BIT(i); next(c, (takes_part[c] -> STAGE : JOIN))
		:: WILL_DIE(SHARDD) && how[c] == RUNS -> deaf = deaf | BIT(c)
		fi;
		i = 0 }
	:: d_step { ASKS(c, GET) && !stale && (force[W(c)] != gen[c] || !todo) ->
		if
		:: force[W(c)] != gen[c] -> refuse(c)
		:: force[W(c)] == gen[c] && takes_part[c] -> next(c, LEAVE)
		:: else -> next(c, (done == ALL -> END : DOOR))
		fi }
	:: d_step { ASKS(c, DOOR) && (todo || done == ALL || force[W(c)] != gen[c]) -> at[c] = GET }
	:: d_step { ASKS(c, RESUME) && !stale ->
		if
		:: force[W(c)] != gen[c] -> refuse(c)
		:: force[W(c)] == gen[c] && hand[W(c)] && FAULT != 12 ->
			row[c] = hand[W(c)]; next(c, (takes_part[c] -> STAGE : JOIN))
		:: else -> next(c, GET)
		fi }
	od
}

#define FORLORN(l) (l != life || !up[0])         /* nobody waits for the answer any more */
inline ask_clear(l) {
	ask[l] = NOTHING; ask_incarnation[l] = 0; ask_number[l] = 0; ask_push[2 * l] = 0;
	ask_push[2 * l + 1] = 0
}

/* The conversation of one life of the lead. */
proctype Commits(byte l) {
end:	do
	:: atomic { ask[l] == SETTLE && !stale && !(deaf & (16 << l)) ->
		if
		:: ask_incarnation[l] != incarnation && FAULT != 16 -> ask[l] = OUTDATED
		:: (ask_incarnation[l] == incarnation || FAULT == 16) && ask_number[l] == number &&
		   FAULT != 5 -> ask[l] = SETTLED        /* said again: the same answer */
		:: else ->
			d_step { loose = DISK; refusals = 0; number = ask_number[l];
				judge(0, ask_push[2 * l]); judge(1, ask_push[2 * l + 1]);
				if :: FAULT == 4 && refusals -> refusals = 3 :: else fi;
				k = 0 }
			sync_or_not();
			if
			:: ask[l] = SETTLED
			:: WILL_DIE(SHARDD) && !FORLORN(l) -> deaf = deaf | (16 << l)
			fi
		fi;
		if :: FORLORN(l) -> d_step { ask_clear(l) } :: else fi }
	:: d_step { ask[l] == SAVE && !stale ->
		if
		:: FORLORN(l) -> ask_clear(l)
		:: !FORLORN(l) && ask_incarnation[l] != incarnation -> ask[l] = OUTDATED
		:: else -> new_queue = done; ask[l] = SAVED
		fi }
	od
}

/* ---- the lead ---- */
#define IS_ON_TIME(w) (held[w] && !(held[w] & LATE))
#define ON_TIME (IS_ON_TIME(0) + IS_ON_TIME(1))
#define ACTIVES ((state[0] == ACTIVE) + (state[1] == ACTIVE))
#define WAITING ((state[0] == JOINED) + (state[1] == JOINED))
#define IS_UNIT (ON_TIME > 0 && (!BSP || ON_TIME >= (ACTIVES > BACKUP -> ACTIVES - BACKUP : 1)))
#define SERVERS (up[1] && part_inc == lead_inc)
#define CAN_CLOSE (SERVERS && phase == OPEN && (cut == NONE || cut == WRITING) && \
	(IS_UNIT || ((held[0] | held[1]) & LATE)))
#define CAN_LET_IN (WAITING && (!BSP || ACTIVES == 0) && (WAITING == 2 || !expects))
#define CAN_SAVE (SERVERS && phase == OPEN && cut == WANTED)
#define CAN_FENCE(w) (fence_due[w] && (!sent[w] || FAULT == 14))
#define QUIET (up[0] && phase != REFUSING && phase != KNOWN && !CAN_CLOSE && !CAN_LET_IN && \
	!CAN_SAVE && !CAN_FENCE(0) && !CAN_FENCE(1))
#define HEARS(c) (QUIET && lead_inc == inc[c])
#define HAS_STEP(w) (sent[w] && (!(sent[w] & LATE) || FAULT == 7) && !(refused & BIT(w)))
#define OWES(w) (state[w] == ACTIVE && !held[w] && !sent[w])

/* Who of generation g waits at `where` is told what became of it. */
inline tell(w, g, where, ok) {
	for (j : 0 .. 1) {
		if
		:: at[w + 2 * j] == where && gen[w + 2 * j] == g && how[w + 2 * j] != GONE ->
			if
			:: !ok -> refuse(w + 2 * j)
			:: ok && where == JOINING ->
				takes_part[w + 2 * j] = 1;
				iteration[w + 2 * j] = (BSP -> opened : applied);
				next(w + 2 * j, STAGE)
			:: else ->
				row[w + 2 * j] = 0; sequence[w + 2 * j] = !sequence[w + 2 * j];
				iteration[w + 2 * j] = applied;
				next(w + 2 * j, GET)
			fi
		:: else
		fi
	}
	j = 0
}
inline tell_push(w, push, ok) {
	if :: !(push & LIE) -> tell(w, GEN(push), PUSHED, ok) :: else fi
}
/* Nobody waits for w any more; what of it is with shardd goes on. */
inline out(w) {
	if
	:: state[w] == JOINED -> tell(w, member[w], JOINING, 0)
	:: held[w] -> tell_push(w, held[w], 0); held[w] = 0
	:: else
	fi;
	state[w] = OUT; member[w] = 0
}
inline order(what, a, b) { if :: SERVERS -> orders!what, a, b :: else fi }
inline throw(w) {
	if :: throw_to[w] && !sent[w] -> order(THROW, w, throw_to[w]); throw_to[w] = 0 :: else fi
}
inline raise(what, least) { if :: what < least -> what = least :: else fi }
inline fence(w) {
	fence_due[w] = 0;
	if :: member[w] && member[w] <= fenced[w] -> out(w) :: else fi;
	raise(throw_to[w], fenced[w]); throw(w);
	if :: step == FENCED && about == w -> step = FAIL :: else fi
}
inline let_in() {
	for (i : 0 .. 1) {
		if
		:: state[i] == JOINED -> state[i] = ACTIVE; tell(i, member[i], JOINING, 1)
		:: else
		fi
	}
	i = 0; expects = 0
}
inline finish(w) {
	if
	:: sent[w] && (refused & BIT(w)) ->
		tell_push(w, sent[w], 0);
		raise(fenced[w], GEN(sent[w])); raise(throw_to[w], GEN(sent[w]));
		if :: member[w] == GEN(sent[w]) -> out(w) :: else fi
	:: sent[w] && !(refused & BIT(w)) -> tell_push(w, sent[w], 1)
	:: else
	fi;
	sent[w] = 0
}
inline finish_those(which) {
	for (m : 0 .. 1) { if :: which & BIT(m) -> finish(m); throw(m) :: else fi }
	m = 0; refused = 0
}
inline ask_settle() {
	if
	:: sent[0] || sent[1] ->
		phase = SETTLING; settle_number = !settle_number;
		ask[life] = SETTLE; ask_incarnation[life] = lead_inc;
		ask_number[life] = settle_number;
		ask_push[2 * life] = sent[0]; ask_push[2 * life + 1] = sent[1]
	:: else -> phase = KNOWN
	fi
}
/* A lead that dies, or is not in force any more: its settle may still be read. */
inline stop_lead() {
	up[0] = 0; rows[0] = 0; lead_inc = 0; opened = 0; applied = 0; phase = OPEN; cut = NONE;
	refused = 0; is_unit = 0; settle_number = 0; expects = 0;
	if :: ask[life] != SETTLE -> ask_clear(life) :: else fi;
	deaf = deaf & 15;
	for (i : 0 .. 1) {
		state[i] = OUT; member[i] = 0; seen[i] = 0; fenced[i] = 0; throw_to[i] = 0;
		held[i] = 0; sent[i] = 0; fence_due[i] = 0
	}
	for (i : 0 .. 3) {               /* they ask again, and meet another incarnation */
		if
		:: at[i] == JOINING || at[i] == PUSHED ->
			at[i] = JOIN; if :: how[i] == ASKED -> how[i] = STANDS :: else fi
		:: else
		fi
	}
	do :: nempty(orders) -> orders?_, _, _ :: empty(orders) -> break od;
	new_queue = 0; new_rows[0] = 0; new_rows[1] = 0; is_written = 0;
	if :: step == FENCE || step == FENCED -> step = LOOKS; about = 0; with = 0 :: else fi;
	i = 0
}

/* What it does by itself. */
proctype Lead() {
end:	do
	:: d_step { up[0] && CAN_CLOSE && !CAN_FENCE(0) && !CAN_FENCE(1) ->
		is_unit = IS_UNIT;
		for (i : 0 .. 1) {
			if
			:: held[i] && (is_unit || (held[i] & LATE)) ->
				sent[i] = held[i]; held[i] = 0
			:: else
			fi
		}
		i = 0;
		if :: is_unit && BSP -> opened++; let_in() :: else fi;
		if
		:: (HAS_STEP(0) || HAS_STEP(1)) && FAULT != 1 -> phase = HOLDING
		:: else -> ask_settle()
		fi }
	:: d_step { up[0] && phase == REFUSING -> finish_those(refused); ask_settle() }
	:: d_step { up[0] && phase == SETTLING && ask[life] == SETTLED ->
		refused = (FAULT == 6 -> 0 : refusals); ask_clear(life); phase = KNOWN }
	:: d_step { up[0] && phase == KNOWN ->
		p = (HAS_STEP(0) -> sent[0] : 0); q = (HAS_STEP(1) -> sent[1] : 0);
		assert(!(rows[0] & (ROWS(p) | ROWS(q))) && !(ROWS(p) & ROWS(q)));
		assert(!((p | q) & TWICE));
		rows[0] = rows[0] | ROWS(p) | ROWS(q);
		if
		:: is_unit && BSP -> applied++; order(APPLY, p, q)
		:: !BSP && (p || q) -> applied = applied + (p != 0) + (q != 0); order(APPLY, p, q)
		:: else
		fi;
		p = 0; q = 0; phase = OPEN; is_unit = 0; finish_those(3) }
	:: d_step { up[0] && ask[life] == OUTDATED -> ask_clear(life); stop_lead() }
	:: d_step { up[0] && CAN_LET_IN -> let_in() }
	:: d_step { QUIET && expects && WAITING -> expects = 0 }
	:: d_step { up[0] && (CAN_FENCE(0) || CAN_FENCE(1)) ->
		m = (CAN_FENCE(0) -> 0 : 1); fence(m); m = 0 }
	/* a connection closes */
	:: d_step { QUIET && state[0] != OUT && !(LIVES(0) && gen[0] == member[0]) &&
		!(LIVES(2) && gen[2] == member[0]) -> out(0) }
	:: d_step { QUIET && state[1] != OUT && !(LIVES(1) && gen[1] == member[1]) &&
		!(LIVES(3) && gen[3] == member[1]) -> out(1) }
	/* a cut */
	:: d_step { QUIET && cut == NONE && cuts < CUTS && done != ALL -> cuts++; cut = WANTED }
	:: d_step { up[0] && CAN_SAVE ->
		cut = SAVING; ask[life] = SAVE; ask_incarnation[life] = lead_inc }
	:: d_step { up[0] && cut == SAVING && ask[life] == SAVED ->
		ask_clear(life); cut = WRITING; new_rows[0] = rows[0]; order(CUT, 0, 0);
		if :: FAULT == 15 -> new_rows[1] = rows[1] :: else fi }
	:: d_step { up[0] && cut == WRITING && is_written ->
		assert(new_queue == new_rows[0] && new_queue == new_rows[1]);
		cut_queue = new_queue; cut_rows[0] = new_rows[0]; cut_rows[1] = new_rows[1];
		cut = NONE; new_queue = 0; new_rows[0] = 0; new_rows[1] = 0; is_written = 0 }
	od
}

/* A worker's conversation. */
proctype Members(byte c) {
end:	do
	:: d_step { ASKS(c, JOIN) && HEARS(c) ->
		if
		:: gen[c] <= fenced[W(c)] || gen[c] < seen[W(c)] -> refuse(c)
		:: else ->
			if :: member[W(c)] && member[W(c)] < gen[c] -> out(W(c)) :: else fi;
			if
			:: seen[W(c)] > fenced[W(c)] && seen[W(c)] < gen[c] ->
				throw_to[W(c)] = gen[c] - 1; throw(W(c))
			:: else
			fi;
			seen[W(c)] = gen[c]; member[W(c)] = gen[c]; state[W(c)] = JOINED;
			next(c, JOINING)
		fi }
	:: d_step { ASKS(c, PUSH) && HEARS(c) ->
		if
		:: state[W(c)] == ACTIVE && member[W(c)] == gen[c] && gen[c] > fenced[W(c)] &&
		   !held[W(c)] ->
			held[W(c)] = PUSH_OF(gen[c], sequence[c], row[c]) |
				(BSP && iteration[c] < opened -> LATE : 0);
			next(c, PUSHED)
		:: else -> refuse(c)
		fi }
	:: d_step { ASKS(c, LEAVE) && HEARS(c) ->
		if :: member[W(c)] == gen[c] -> out(W(c)) :: else fi;
		takes_part[c] = 0; next(c, GET) }
	:: d_step { ASKS(c, REFUSED) && HEARS(c) ->
		if :: member[W(c)] == gen[c] -> out(W(c)) :: else fi;
		anew(c) }
	:: d_step { ASKS(c, REFUSED) && (!up[0] || lead_inc > inc[c]) -> anew(c) }
	/* the servers came back with another incarnation */
	:: d_step { (ASKS(c, JOIN) || ASKS(c, STAGE) || ASKS(c, PUSH) || ASKS(c, LEAVE) ||
		ASKS(c, END)) && up[0] && lead_inc > inc[c] -> anew(c) }
	od
}

/* ---- part 1 ---- */
inline stop_part() {
	up[1] = 0; rows[1] = 0; part_inc = 0; part_applied = 0; holds = 0;
	for (i : 0 .. 3) { staged[i] = 0 }
	for (i : 0 .. 1) { thrown[i] = 0; staged_lie[i] = 0 }
	do :: nempty(orders) -> orders?_, _, _ :: empty(orders) -> break od;
	i = 0
}
#define IS_STAGED(w, push) ((((push) & LIE) && staged_lie[GEN(push) & 1] == (push)) || \
	(!((push) & LIE) && staged[SLOT(w, GEN(push))] == (push)))
#define HOLD_BIT(w, push) (((push) & LIE) -> 16 << (GEN(push) & 1) : BIT(SLOT(w, GEN(push))))
inline hold(w) {
	if
	:: HAS_STEP(w) && IS_STAGED(w, sent[w]) ->
		if :: FAULT != 2 -> holds = holds | HOLD_BIT(w, sent[w]) :: else fi
	:: HAS_STEP(w) && !IS_STAGED(w, sent[w]) ->
		assert(LIES && w == 1);                          /* its own fault */
		refused = refused | BIT(w)
	:: else
	fi
}
inline apply(w, push) {
	if
	:: push ->
		assert(IS_STAGED(w, push) && !(rows[1] & ROWS(push)));
		rows[1] = rows[1] | ROWS(push); holds = holds & ~HOLD_BIT(w, push);
		if
		:: push & LIE -> staged_lie[GEN(push) & 1] = 0
		:: else -> staged[SLOT(w, GEN(push))] = 0
		fi
	:: else
	fi
}
/* There is room for two generations here; a third waits for a push that is with shardd. */
#define LIES_HERE(c) staged[SLOT(W(c), gen[c])]
#define HAS_ROOM(c) (!LIES_HERE(c) || LIES_HERE(c) != sent[W(c)] || GEN(LIES_HERE(c)) >= gen[c])

/* A worker's conversation: a pull, which waits for the units before its own, and the push. */
proctype Staging(byte c) {
end:	do
	:: d_step { ASKS(c, STAGE) && HEARS(c) && up[1] && part_inc == inc[c] && HAS_ROOM(c) &&
		applied >= iteration[c] && part_applied >= iteration[c] ->
		if
		:: gen[c] <= thrown[W(c)] -> refuse(c)
		:: else ->
			k = SLOT(W(c), gen[c]);
			if
			:: GEN(staged[k]) < gen[c] ||
			   (GEN(staged[k]) == gen[c] && !(holds & BIT(k))) ->
				staged[k] = PUSH_OF(gen[c], sequence[c], row[c]);
				holds = holds & ~BIT(k)
			:: else
			fi;
			k = 0; next(c, PUSH)
		fi }
	od
}

/* What the lead asks. */
proctype Part() {
end:	do
	:: d_step { up[0] && SERVERS && phase == HOLDING && empty(orders) ->
		hold(0); hold(1);
		if :: refused -> phase = REFUSING :: else -> ask_settle() fi }
	:: d_step { up[1] && orders?[APPLY, _, _] ->
		orders?_, p, q; apply(0, p); apply(1, q);
		if
		:: BSP ->                /* what else is staged was late for this unit */
			part_applied++; holds = 0; staged_lie[0] = 0; staged_lie[1] = 0;
			for (i : 0 .. 3) { staged[i] = 0 }
			i = 0
		:: else -> part_applied = part_applied + (p != 0) + (q != 0)
		fi;
		p = 0; q = 0 }
	:: d_step { up[1] && orders?[THROW, _, _] ->
		orders?_, p, q; i = p; raise(thrown[i], q);
		for (j : 0 .. 1) {
			if
			:: GEN(staged[i + 2 * j]) <= q ->
				staged[i + 2 * j] = 0; holds = holds & ~BIT(i + 2 * j)
			:: else
			fi;
			if
			:: i == 1 && GEN(staged_lie[j]) <= q ->
				staged_lie[j] = 0; holds = holds & ~(16 << j)
			:: else
			fi
		}
		i = 0; j = 0; p = 0; q = 0 }
	:: d_step { up[1] && orders?[CUT, _, _] ->
		orders?_, _, _; is_written = 1;
		if :: FAULT != 15 -> new_rows[1] = rows[1] :: else fi }
	od
}

/* ---- the supervisor ---- */
inline idle() { step = LOOKS; about = 0; with = 0 }
inline start(w) {
	if :: how[w] == GONE -> how[w] = RUNS :: else -> how[w + 2] = RUNS fi;
	idle()
}

proctype Supervisor() {
	do
	/* a worker's death: the lead, shardd, then its next life */
	:: d_step { step == LOOKS && !intent && up[0] && (TO_START(0) || TO_START(1)) ->
		about = (TO_START(0) -> 0 : 1); step = FENCE;
		with = (force[about] -> force[about] : newest[about]) }
	:: d_step { step == FENCE && QUIET ->
		raise(fenced[about], with); fence_due[about] = 1; step = FENCED }
	:: atomic { step == FAIL && !stale && !(deaf & 64) ->
		d_step { fail(about) }
		if
		:: true -> d_step { start(about); k = 0 }
		:: WILL_DIE(SHARDD) -> deaf = deaf | 64
		fi }
	/* a server's death, for which a lead that was asked may wait: what is to be done is written
	 * down first */
	:: d_step { (step == LOOKS || step == FENCE || step == FENCED) && !intent &&
		(!up[0] || !up[1]) ->
		idle(); intent = 1; intent_queue = cut_queue; intent_rows[0] = cut_rows[0];
		intent_rows[1] = cut_rows[1] }
	:: d_step { step == LOOKS && intent && up[0] -> stop_lead() }
	:: d_step { step == LOOKS && intent && !up[0] && up[1] -> stop_part() }
	:: d_step { step == LOOKS && intent && !up[0] && !up[1] -> with = incarnation; step = LOAD }
	:: atomic { step == LOAD && !(deaf & 64) ->
		if
		:: with != incarnation && FAULT != 8 -> d_step { idle() }
		:: else ->
			d_step { k = (FAULT == 10 && (died & POWER) -> done : intent_queue);
				load(k); k = 0 }
			if
			:: with = incarnation; step = START_0
			:: WILL_DIE(SHARDD) -> deaf = deaf | 64
			fi
		fi }
	:: d_step { step == START_0 ->
		life = !life; ask_clear(life); up[0] = 1; lead_inc = with; expects = BSP;
		rows[0] = (FAULT == 9 -> cut_rows[0] : intent_rows[0]); step = START_1 }
	:: d_step { step == START_1 ->
		up[1] = 1; part_inc = with;
		rows[1] = (FAULT == 9 -> cut_rows[1] : intent_rows[1]); step = CLEAR }
	:: d_step { step == CLEAR ->
		intent = 0; intent_queue = 0; intent_rows[0] = 0; intent_rows[1] = 0; idle() }
	/* the end */
	:: d_step { step == LOOKS && !intent && QUIET && up[1] && !stale && done == ALL &&
		cut == NONE && !finished ->
		if
		:: cut_queue != ALL -> cut = WANTED
		:: else -> assert(cut_rows[0] == ALL && cut_rows[1] == ALL); finished = 1
		fi }
	:: finished -> break
	od
}

/* ---- what goes wrong ---- */
/* A request that was read waits in a daemon and goes with its connection. */
inline die(c) {
	if
	:: (deaf & BIT(c)) || how[c] == STANDS || at[c] == PUSHED || at[c] == JOINING ||
	   at[c] == END -> forget(c)
	:: else -> how[c] = GHOST
	fi;
	deaf = deaf & ~BIT(c)
}
inline old_done() { old_step = LOOKS; old_about = 0; old_with = 0 }

#if CRASH
proctype Crashes() {
end:	do
#if CRASH & WORKER_0
	:: d_step { !finished && WILL_DIE(WORKER_0) && LIVES(0) -> died = died | WORKER_0; die(0) }
#endif
#if CRASH & WORKER_1
	:: d_step { !finished && WILL_DIE(WORKER_1) && LIVES(1) -> died = died | WORKER_1; die(1) }
#endif
#if CRASH & LEAD
	:: d_step { !finished && WILL_DIE(LEAD) && up[0] -> died = died | LEAD; stop_lead() }
#endif
#if CRASH & PART_1
	:: d_step { !finished && WILL_DIE(PART_1) && up[1] -> died = died | PART_1; stop_part() }
#endif
#if CRASH & SHARDD
	:: d_step { !finished && WILL_DIE(SHARDD) ->
		died = died | SHARDD;
		for (i : 0 .. 3) {
			if :: (deaf & BIT(i)) && at[i] == GET -> at[i] = RESUME :: else fi
		}
		if :: (deaf & 64) && step == LOAD -> idle() :: else fi;
		if :: FAULT == 11 -> lose_power() :: else fi;
		i = 0; deaf = 0 }
#endif
#if CRASH & SUPERVISOR
	:: d_step { !finished && WILL_DIE(SUPERVISOR) ->
		died = died | SUPERVISOR;
		if
		:: !(deaf & 64) && (step == FENCE || step == FAIL || step == LOAD) ->
			old_step = step; old_with = with;
			old_about = (step == LOAD -> intent_queue : about)
		:: else
		fi;
		deaf = deaf & ~64; idle() }
	:: d_step { old_step == FENCE && QUIET ->
		raise(fenced[old_about], old_with); fence_due[old_about] = 1; old_done() }
	:: d_step { old_step == FAIL && !stale -> fail(old_about); old_done() }
	:: d_step { old_step == LOAD ->
		if :: old_with == incarnation || FAULT == 8 -> load(old_about) :: else fi;
		old_done() }
#endif
#if CRASH & POWER
	:: d_step { !finished && WILL_DIE(POWER) ->
		died = died | POWER; idle(); old_done();
		stop_lead(); stop_part(); ask_clear(0); ask_clear(1);
		for (i : 0 .. 3) { forget(i) }
		lose_power(); stale = loose; deaf = 0; lying = 0; lie = 0; i = 0 }
#endif
	od
}
#endif

#if HANG
#define MAY_HANG (!finished && hung == 0 && how[1] == RUNS && !(deaf & BIT(1)))

proctype Hangs() {
end:	do
	:: d_step { MAY_HANG -> hung = 1; how[1] = ASKED }
	:: d_step { MAY_HANG && at[1] != PUSHED && at[1] != JOINING && at[1] != END ->
		hung = 1; how[1] = STANDS }
#if HANG == 1
	:: d_step { hung == 1 -> hung = 2; if :: LIVES(1) -> die(1) :: else fi }
#else
	:: d_step { hung == 1 && how[1] != RUNS && QUIET && OWES(1) && member[1] == gen[1] ->
		out(1) }
	:: d_step { hung == 1 && !stale && state[1] == OUT && how[1] == STANDS ->
		hung = 2; fail(1) }
	:: d_step { hung == 2 -> hung = 3; if :: LIVES(1) -> how[1] = RUNS :: else fi }
#endif
	od
}
#endif

#if LIES
/* In worker 1's name, of any row, beside what it does in order. */
proctype Liar() {
end:	do
	:: atomic { lying == 0 && lies < LIES && gen[1] && how[1] == RUNS && !finished ->
		select (i : 0 .. N - 1); lie = PUSH_OF(gen[1], 2, BIT(i)); i = 0;
		if :: lie = lie | TWICE :: skip fi;
		lying = 1; lies++ }
	:: d_step { lying == 1 && up[1] && part_inc == inc[1] && gen[1] == GEN(lie) &&
		gen[1] > thrown[1] ->
		if :: !(holds & (16 << (gen[1] & 1))) -> staged_lie[gen[1] & 1] = lie :: else fi;
		lying = 2 }
	:: lying == 1 -> lying = 2               /* part 1 does not hear of it */
	:: d_step { lying == 2 && QUIET ->
		if
		:: state[1] == ACTIVE && member[1] == GEN(lie) && GEN(lie) > fenced[1] &&
		   !held[1] && lead_inc == inc[1] -> held[1] = lie; lying = 3
		:: else -> lying = 0; lie = 0
		fi }
	:: d_step { lying == 3 && up[1] && IS_STAGED(1, lie) -> /* the same name, another count */
		if
		:: !(holds & HOLD_BIT(1, lie)) -> staged_lie[GEN(lie) & 1] = lie ^ TWICE
		:: else
		fi;
		lying = 0; lie = 0 }
	:: d_step { lying == 3 -> lying = 0; lie = 0 }
	od
}
#endif

init {
	atomic {
		how[0] = RUNS; how[1] = RUNS;
		run Shardd(0); run Members(0); run Staging(0);
		run Shardd(1); run Members(1); run Staging(1);
		run Commits(0); run Lead(); run Part(); run Supervisor();
#if CRASH & WORKER_0
		run Shardd(2); run Members(2); run Staging(2);
#endif
#if (CRASH & WORKER_1) || HANG == 1
		run Shardd(3); run Members(3); run Staging(3);
#endif
#if CRASH & (LEAD | PART_1 | POWER)
		run Commits(1);
#endif
#if CRASH
		run Crashes();
#endif
#if HANG
		run Hangs();
#endif
#if LIES
		run Liar();
#endif
	}
}
