/*
 * Parameters that move between servers while a job trains (lib/lead/lead_move.c) as a Spin model:
 * NW workers, the lead with part 0, up to two other parts, shardd with its incarnations, a
 * supervisor; N rows, one epoch.  Parameters are the audit model's, in CELLS cells: of each cell
 * the set of rows that are in it.
 *
 *     spin -DPIECES=1 -DCRASH=2 -search -O2 servers.pml   part 1 dies, once, at any step
 *     spin -DLATE=1 -DFAULT=2 -search -O2 servers.pml     a fault: it must find an error
 *
 * tests/model/run has the configurations.  Checked: no row is applied twice to a cell; a unit is
 * applied with parts of one map; what is pulled is whole; at every cut the queue and all cells have
 * the same rows; all go back to a checkpoint only when somebody died; in the end the last cut has
 * all rows, and the map is the one that is wanted; nobody waits for ever; nobody's push is refused
 * because of a move.
 *
 * The map of the lead is the one in force: a move is committed in its memory.  The death of any
 * part in force takes all parts back to a checkpoint, so that there is no half of a map to mend.
 *
 * As in batch.pml (which has backup workers, lies, hangs, a shardd that dies and power cuts) a
 * client stands at a request, and the step of the daemon that serves it moves the client on.
 */
#ifndef N
#define N 2      /* rows */
#endif
#ifndef NW
#define NW 1     /* workers, 1 or 2 */
#endif
#ifndef SYNC
#define SYNC 0   /* 0 BSP, 1 SSP with staleness 0, 2 ASP */
#endif
#ifndef CUTS
#define CUTS 0   /* checkpoints at any time, besides the last one */
#endif
#ifndef PIECES
#define PIECES 0 /* 1: each move in pieces of one cell, a map version each; 0: in one piece */
#endif
#ifndef LATE
#define LATE 0   /* so many attempts are given up by a deadline, at any step */
#endif
#ifndef GIVEUP
#define GIVEUP 0 /* 1: the supervisor may give up what was asked for, and want the map that is */
#endif
#ifndef CELLS
#define CELLS 3  /* or 4: the last one goes where the one before it goes, in a piece of its own */
#endif
/* Layouts: cell 0 stays with part 0; who has cell 1, 2, 3; bits: whether parts 1, 2 are in the map. */
#define LAYOUT_OF(one, two, three, in) ((one) | ((two) << 2) | ((three) << 4) | ((in) << 6))
#if CELLS > 3
#define LAYOUT(one, two, in) LAYOUT_OF(one, two, two, in)
#else
#define LAYOUT(one, two, in) LAYOUT_OF(one, two, 0, in)
#endif
#define ALONE LAYOUT(0, 0, 0)
#define TWO LAYOUT(0, 1, 1)
#define TWO_UNEVEN LAYOUT(1, 1, 1)
#define THREE LAYOUT(1, 2, 3)
#define OTHER LAYOUT(2, 2, 2)    /* part 2 in the place of part 1 */
#ifndef FROM
#define FROM ALONE
#endif
#ifndef TO
#define TO THREE
#endif
#ifndef THEN     /* asked for when it is TO, or while it becomes so */
#define THEN TO
#endif
/* CRASH, a sum: each dies once, at any step. */
#define LEAD 1
#define PART_1 2
#define PART_2 4
#define SUPERVISOR 8
#define WORKER_0 16
#define WORKER_1 32
#ifndef CRASH
#define CRASH 0
#endif
#ifndef FAULT
#define FAULT 0
#endif
/* FAULT: what the design leaves out or does wrong.
 *  1 units go on while parameters are given
 *  2 what was taken is not known by its attempt
 *  3 parameters are given before all have prepared
 *  4 the lead keeps pushes of the old map
 *  5 a giver forgets what it gives, before the map is in force
 *  6 the map is in force before all have taken
 *  7 pull and push carry no version
 *  8 a batch that meets a new map is dropped
 *  9 a worker keeps its map when the incarnation changes
 * 10 a part that is to leave is stopped before the move is answered
 * 11 the lead is not asked for the map anew when a part has died
 * 12 after a move that failed its joiners are stopped, whatever the map is
 * 13 a worker waits for a part that has left
 * 14 the lead takes a part that came back empty for the one that it was (and 18)
 * 15 only parts that give or take are told of the map
 * 16 SSP: an answer that waits for slower members is taken back, and the push taken as a new one
 * 17 after a rollback shardd keeps its queue
 * 18 what the lead says of the map while something moves is believed
 * 19 a part that has left, and what it has, is taken for one that joins
 * 20 a part that has died is no reason to roll back while something moves
 */
#define BSP (SYNC == 0)
#define ALL ((1 << N) - 1)
#define OWNER(l, c) ((c) == 0 -> 0 : ((l) >> (2 * ((c) - 1))) & 3)
#define IN(l, s) ((s) == 0 || ((l) & (32 << (s))))
#define OF(l, s) ((OWNER(l, 0) == (s)) + 2 * (OWNER(l, 1) == (s)) + 4 * (OWNER(l, 2) == (s)) + \
	(CELLS > 3 -> 8 * (OWNER(l, 3) == (s)) : 0))
#define ALL_CELLS ((1 << CELLS) - 1)
#define DIFFERS(c) (OWNER(layout[0], c) != OWNER(target, c))
#define BIT(n) (1 << (n))

/* A push: which cells it is for, sequence, generation (3 bits), rows (3 bits); 0 is none. */
#define PUSH_OF(g, q, r) (((q) << 6) | ((g) << 3) | (r))
#define NAME(p) ((p) & 127)
#define FOR(p) ((p) >> 7)
#define ROWS(p) ((p) & 7)
#define GEN(p) (((p) >> 3) & 7)

/* ---- shardd ---- */
byte todo = ALL, hand[NW], done;
byte force[NW], newest[NW];
byte incarnation = 1;
byte number = 2, refusals;

/* ---- what the lead asks of shardd: two lives of the lead, one of which runs ---- */
mtype = { NOTHING, SETTLE, SETTLED, SAVE, SAVED, OUTDATED };
mtype ask[2] = NOTHING;
byte ask_incarnation[2];
bool ask_number[2];
short ask_push[2 * NW];          /* NW * life + worker */
byte life;

/* ---- parts; 0 is the lead's ---- */
typedef Cells { byte c[CELLS] }
typedef Staged { short w[NW] }
bool up[3];
byte inc_of[3], version[3], layout[3], applied[3];
Cells rows[3];
Staged staged[3];
byte thrown[3 * NW];             /* generations up to it go */
byte prepared[3], next_of[3];    /* the attempt that it knows of, and its layout; 0: none */
byte aside[3];                   /* cells that have come, for that attempt */
Cells came[3];
mtype = { APPLY, THROW, CUT, PREPARE, GIVE, ADOPT, CANCEL };
chan orders[3] = [6] of { mtype, short, short, byte };   /* of the lead */
chan gifts[3] = [CELLS] of { byte, byte, byte };             /* attempt, cell, its rows */

/* ---- the lead ---- */
mtype = { OUT, JOINED, ACTIVE };
mtype state[NW] = OUT;
byte member[NW], fenced[NW], throw_to[NW];
short held[NW], sent[NW];
byte last[NW];                   /* the push of each that was answered for good, without rows */
byte clock[NW];
bool waits[NW];                  /* SSP: applied, and not answered yet */
byte refused;
bool fence_due[NW], settle_number;
mtype = { OPEN, HOLDING, SETTLING, KNOWN };
mtype phase = OPEN;
mtype = { NONE, WANTED, SAVING, WRITING };
mtype cut = NONE;
byte writers, written;           /* parts that are to write the cut, and have */
mtype = { STILL, PREPARING, READY, GIVING, ADOPTING };
mtype move = STILL;
byte attempt, target, next_map, told, given;
byte link[3];                    /* 0 none, 1 to a part that lives, 2 to one that is dead */
chan answers = [6] of { mtype, byte, byte };  /* PREPARE, attempt, part; GIVE, attempt, cell */
byte late;

/* ---- checkpoints; the last one, the intent and what is wanted are durable ---- */
byte cut_queue, cut_rows[CELLS], new_queue, new_rows[CELLS], cuts;
bool intent;
byte intent_queue, intent_rows[CELLS];
byte wanted = FROM;
bool second;                     /* THEN was asked for */

/* ---- the supervisor ---- */
mtype = { LOOKS, FENCE, FENCED, FAIL, ASK_MAP, MOVE, MOVING, MOVED, FAILED, LOAD, START };
mtype step = LOOKS;
byte about, with;
byte knows;                      /* the map: 1 as it was while something moved, 2 as it is */
byte known, known_version = 1;
bool old_move;                   /* of a supervisor that died */
byte old_target, gave;
bool finished;

/* ---- workers ---- */
mtype = { HELLO, GET, DOOR, JOIN, JOINING, ASK, PULL, STAGE, PUSH, PUSHED, LEAVE, REFUSED, END };
mtype at[NW] = HELLO;
bool runs[NW] = 1;
byte gen[NW], inc[NW], row[NW], iteration[NW], map_of[NW], parts_of[NW], place[NW];
bool sequence[NW], takes_part[NW], computed[NW];

byte died;
hidden byte i, j, k, m;
hidden short p, q;

#define WILL_DIE(what) ((CRASH & (what)) && !(died & (what)))

inline raise(what, least) { if :: what < least -> what = least :: else fi }

/* ---- workers ---- */
inline forget(w) {
	at[w] = HELLO; gen[w] = 0; inc[w] = 0; row[w] = 0; iteration[w] = 0; place[w] = 0;
	sequence[w] = 0; takes_part[w] = 0; computed[w] = 0;
	if :: FAULT != 9 -> map_of[w] = 0; parts_of[w] = 0 :: else fi
}
inline refuse(w) {
	assert(CRASH);
	if :: takes_part[w] -> at[w] = REFUSED :: else -> forget(w) fi
}
/* To the first part of its map, from `from` on, that it has to ask; else what is next. */
inline onward(w, from, what, then) {
	place[w] = from;
	do
	:: place[w] < 3 && !IN(parts_of[w], place[w]) -> place[w]++
	:: else -> break
	od;
	if :: place[w] < 3 -> at[w] = what :: else -> place[w] = 0; at[w] = then fi
}
inline to_stage(w) { computed[w] = 1; onward(w, 1, STAGE, PUSH) }
inline to_pull(w) { onward(w, 0, PULL, PUSH) }
inline begin_row(w) {
	if :: map_of[w] -> to_pull(w) :: else -> at[w] = ASK fi
}

/* ---- shardd ---- */
inline give_back(w) { todo = todo | hand[w]; hand[w] = 0 }
inline load(queue) {
	incarnation++; assert(incarnation < 8);
	done = queue; todo = ALL & ~queue; number = 2; refusals = 0;
	for (j : 0 .. NW - 1) { hand[j] = 0; force[j] = 0 }
	j = 0
}
inline judge(w, push) {
	if
	:: push == 0
	:: push != 0 && GEN(push) == force[w] && !(ROWS(push) & ~hand[w]) ->
		hand[w] = hand[w] & ~ROWS(push); done = done | ROWS(push)
	:: else -> assert(GEN(push) != force[w]); refusals = refusals | BIT(w)
	fi
}
#define FORLORN(l) (l != life || !up[0])
inline ask_clear(l) {
	ask[l] = NOTHING; ask_incarnation[l] = 0; ask_number[l] = 0;
	for (j : 0 .. NW - 1) { ask_push[NW * l + j] = 0 }
	j = 0
}

proctype Shardd(byte w) {
end:	do
	:: d_step { at[w] == HELLO && runs[w] ->
		give_back(w); newest[w]++; assert(newest[w] < 8); force[w] = newest[w];
		gen[w] = newest[w]; inc[w] = incarnation; at[w] = GET }
	:: d_step { at[w] == GET && runs[w] && force[w] == gen[w] && todo ->
		i = 0; do :: todo & BIT(i) -> break :: else -> i++ od;
		todo = todo & ~BIT(i); hand[w] = hand[w] | BIT(i); row[w] = BIT(i); i = 0;
		if :: takes_part[w] -> begin_row(w) :: else -> at[w] = JOIN fi }
	:: d_step { at[w] == GET && runs[w] && (force[w] != gen[w] || !todo) ->
		if
		:: force[w] != gen[w] -> refuse(w)
		:: force[w] == gen[w] && takes_part[w] -> at[w] = LEAVE
		:: else -> at[w] = (done == ALL -> END : DOOR)
		fi }
	:: d_step { at[w] == DOOR && (todo || done == ALL || force[w] != gen[w]) -> at[w] = GET }
	od
}

proctype Commits(byte l) {
end:	do
	:: d_step { ask[l] == SETTLE ->
		if
		:: ask_incarnation[l] != incarnation -> ask[l] = OUTDATED
		:: else ->
			if
			:: ask_number[l] != number ->
				refusals = 0; number = ask_number[l];
				for (i : 0 .. NW - 1) { judge(i, ask_push[NW * l + i]) }
				i = 0
			:: else
			fi;
			ask[l] = SETTLED
		fi;
		if :: FORLORN(l) -> ask_clear(l) :: else fi }
	:: d_step { ask[l] == SAVE ->
		if
		:: FORLORN(l) -> ask_clear(l)
		:: !FORLORN(l) && ask_incarnation[l] != incarnation -> ask[l] = OUTDATED
		:: else -> new_queue = done; ask[l] = SAVED
		fi }
	od
}

/* ---- the lead ---- */
#if NW == 2
#define ANY(what) (what(0) || what(1))
#define COUNT(what) (what(0) + what(1))
#else
#define ANY(what) (what(0))
#define COUNT(what) (what(0))
#endif
#define IS_HELD(w) (held[w] != 0)
#define IS_SENT(w) (sent[w] != 0)
#define IS_ACTIVE(w) (state[w] == ACTIVE)
#define IS_JOINED(w) (state[w] == JOINED)
#define IS_UNIT (COUNT(IS_HELD) > 0 && (!BSP || COUNT(IS_HELD) >= COUNT(IS_ACTIVE)))
#define HAS_LINK(s) (!IN(layout[0], s) || link[s] == 1)
#define SERVERS (HAS_LINK(1) && HAS_LINK(2))
/* While a cut is written the move waits, and units go on. */
#define STANDS (((move == READY && cut == NONE) || move == GIVING) && FAULT != 1)
#define CUT_HOLDS (cut == WANTED || cut == SAVING)
#define CAN_CLOSE (SERVERS && phase == OPEN && !CUT_HOLDS && !STANDS && IS_UNIT)
#define CAN_LET_IN (COUNT(IS_JOINED) && (!BSP || COUNT(IS_ACTIVE) == 0))
#define CAN_SAVE (SERVERS && phase == OPEN && cut == WANTED && move != GIVING)
#define CAN_FENCE(w) (fence_due[w] && !sent[w])
#define INVOLVED(s) (IN(layout[0], s) || IN(next_map, s))
#define CAN_GIVE (move == READY && (phase == OPEN || FAULT == 1) && cut == NONE && SERVERS)
#define CAN_COMMIT (move == GIVING && (given == ALL_CELLS || FAULT == 6) && (phase == OPEN || FAULT != 1))
#define CAN_GO_ON (move == ADOPTING && told == 7)
#define CAN_RELEASE(w) (waits[w] && !IS_SLOWER(w))
#define QUIET (up[0] && phase != KNOWN && !CAN_CLOSE && !CAN_LET_IN && !CAN_SAVE && \
	!ANY(CAN_FENCE) && !CAN_GIVE && !CAN_COMMIT && !CAN_GO_ON && !ANY(CAN_RELEASE))
#define HEARS(w) (QUIET && inc_of[0] == inc[w])
#define HAS_STEP(w) (sent[w] && !(refused & BIT(w)))
#if NW == 2
#define IS_SLOWER(w) (SYNC == 1 && state[1 - (w)] == ACTIVE && clock[1 - (w)] < clock[w])
#else
#define IS_SLOWER(w) 0
#endif

inline order(s, what, a, b, c) { if :: link[s] == 1 -> orders[s]!what, a, b, c :: else fi }
inline order_all(what, a, b, c) {
	if :: IN(layout[0], 1) -> order(1, what, a, b, c) :: else fi;
	if :: IN(layout[0], 2) -> order(2, what, a, b, c) :: else fi
}
inline tell(w, g, where, ok) {
	if
	:: at[w] == where && gen[w] == g && runs[w] ->
		if
		:: !ok -> refuse(w)
		:: ok && where == JOINING ->
			takes_part[w] = 1; begin_row(w);
			iteration[w] = applied[0] + (BSP && phase != OPEN)
		:: else ->
			row[w] = 0; sequence[w] = !sequence[w]; computed[w] = 0;
			iteration[w] = applied[0]; at[w] = GET
		fi
	:: else
	fi
}
inline out(w) {
	if
	:: state[w] == JOINED -> tell(w, member[w], JOINING, 0)
	:: held[w] -> tell(w, GEN(held[w]), PUSHED, 0); held[w] = 0
	:: waits[w] -> tell(w, member[w], PUSHED, 1)
	:: else
	fi;
	waits[w] = 0; state[w] = OUT; member[w] = 0; clock[w] = 0
}
inline throw(w) {
	if :: throw_to[w] && !sent[w] -> order_all(THROW, w, throw_to[w], 0); throw_to[w] = 0 :: else fi
}
inline fence(w) {
	fence_due[w] = 0;
	if :: member[w] && member[w] <= fenced[w] -> out(w) :: else fi;
	raise(throw_to[w], fenced[w]); throw(w);
	if :: step == FENCED && about == w -> step = FAIL :: else fi
}
inline slowest() {
	k = 15;
	for (i : 0 .. NW - 1) {
		if :: state[i] == ACTIVE && clock[i] < k -> k = clock[i] :: else fi
	}
	if :: k == 15 -> k = 0 :: else fi
}
inline let_in() {
	slowest();
	for (i : 0 .. NW - 1) {
		if
		:: state[i] == JOINED -> state[i] = ACTIVE; clock[i] = k; tell(i, member[i], JOINING, 1)
		:: else
		fi
	}
	i = 0; k = 0
}
inline finish(w) {
	if
	:: sent[w] && (refused & BIT(w)) ->
		tell(w, GEN(sent[w]), PUSHED, 0);
		raise(fenced[w], GEN(sent[w])); raise(throw_to[w], GEN(sent[w]));
		if :: member[w] == GEN(sent[w]) -> out(w) :: else fi
	:: sent[w] && !(refused & BIT(w)) ->
		last[w] = NAME(sent[w]) >> 3;
		if
		:: !BSP && state[w] == ACTIVE && member[w] == GEN(sent[w]) -> clock[w]++; waits[w] = 1
		:: else -> tell(w, GEN(sent[w]), PUSHED, 1)
		fi
	:: else
	fi;
	sent[w] = 0; throw(w)
}
inline ask_settle() {
	if
	:: ANY(IS_SENT) ->
		phase = SETTLING; settle_number = !settle_number;
		ask[life] = SETTLE; ask_incarnation[life] = inc_of[0];
		ask_number[life] = settle_number;
		for (j : 0 .. NW - 1) { ask_push[NW * life + j] = sent[j] }
		j = 0
	:: else -> phase = KNOWN
	fi
}

/* ---- parts ---- */
inline part_clear(s) {
	up[s] = 0; inc_of[s] = 0; version[s] = 0; layout[s] = 0; applied[s] = 0;
	prepared[s] = 0; next_of[s] = 0; aside[s] = 0;
	for (j : 0 .. CELLS - 1) { rows[s].c[j] = 0; came[s].c[j] = 0 }
	for (j : 0 .. NW - 1) { staged[s].w[j] = 0; thrown[NW * (s) + j] = 0 }
	do :: nempty(orders[s]) -> orders[s]?_, _, _, _ :: empty(orders[s]) -> break od;
	do :: nempty(gifts[s]) -> gifts[s]?_, _, _ :: empty(gifts[s]) -> break od;
	j = 0
}
inline stop_part(s) {
	part_clear(s);
	if :: link[s] == 1 -> link[s] = 2 :: else fi;
	if :: FAULT != 11 -> knows = 0 :: else fi        /* the supervisor asks again */
}
/* Empty, to be given parameters. */
inline start_joiner(s) { up[s] = 1; inc_of[s] = incarnation }
inline keep_own(s) {
	prepared[s] = 0; next_of[s] = 0; aside[s] = 0;
	for (j : 0 .. CELLS - 1) { came[s].c[j] = 0 }
	j = 0
}
inline give(s, a) {
	for (j : 0 .. CELLS - 1) {
		if
		:: OWNER(layout[s], j) == s && OWNER(next_of[s], j) != s ->
			m = OWNER(next_of[s], j);
			if :: up[m] -> gifts[m]!a, j, rows[s].c[j] :: else fi;
			if :: FAULT == 5 -> rows[s].c[j] = 0 :: else fi
		:: else
		fi
	}
	j = 0; m = 0
}
inline adopt(s, a, v, u) {
	assert(prepared[s] == a);
	assert(version[s] == 0 || applied[s] == u || FAULT == 1);
	for (j : 0 .. CELLS - 1) {
		if
		:: OWNER(next_of[s], j) == s && !(version[s] && OWNER(layout[s], j) == s) ->
			assert(aside[s] & BIT(j)); rows[s].c[j] = came[s].c[j]
		:: OWNER(next_of[s], j) != s -> rows[s].c[j] = 0
		:: else
		fi
	}
	version[s] = v; layout[s] = next_of[s]; applied[s] = u;
	for (j : 0 .. NW - 1) { staged[s].w[j] = 0 }
	keep_own(s)
}

/* ---- a move ---- */
inline choose_piece() {
	next_map = target;
	if
	:: PIECES && DIFFERS(3) && (DIFFERS(1) || DIFFERS(2)) ->
		next_map = LAYOUT_OF(OWNER(layout[0], 1), OWNER(layout[0], 2), OWNER(target, 3),
			(layout[0] >> 6) | (target >> 6))
	:: PIECES && !DIFFERS(3) && DIFFERS(2) && DIFFERS(1) ->
		next_map = LAYOUT_OF(OWNER(layout[0], 1), OWNER(target, 2), OWNER(target, 3),
			(layout[0] >> 6) | (target >> 6))
	:: else
	fi
}
inline begin_piece() {
	choose_piece(); attempt++; assert(attempt < 16);
	move = (FAULT == 3 -> READY : PREPARING); told = 1; given = 0;
	prepared[0] = attempt; next_of[0] = next_map;
	for (i : 1 .. 2) {
		if
		:: !INVOLVED(i) -> told = told | BIT(i)
		:: INVOLVED(i) -> order(i, PREPARE, attempt, next_map, 0)
		fi
	}
	i = 0
}
inline end_move() { move = STILL; next_map = 0; told = 0; given = 0 }
inline answer_move(how) {
	target = 0;
	if :: step == MOVING -> step = how :: else fi
}
inline give_up() {
	for (i : 1 .. 2) { if :: INVOLVED(i) -> order(i, CANCEL, attempt, 0, 0) :: else fi }
	i = 0; keep_own(0); end_move(); answer_move(FAILED)
}
#define IS_THERE(t, s) (!(IN(t, s) || IN(layout[0], s)) || link[s] == 1)
#define ARE_THERE(t) (IS_THERE(t, 1) && IS_THERE(t, 2))
#define JOINS(t, s) (IN(t, s) && !IN(layout[0], s))
#define IS_WRONG(t, s) (JOINS(t, s) && version[s] != 0 && FAULT != 19)
inline serve_move(t) {
	if
	:: t == layout[0] -> if :: step == MOVE -> step = MOVED :: else fi
	:: t != layout[0] && (IS_WRONG(t, 1) || IS_WRONG(t, 2)) ->
		if :: step == MOVE -> step = FAILED :: else fi
	:: else ->
		if :: step == MOVE -> step = MOVING :: else fi;
		target = t; begin_piece()
	fi
}
inline commit() {
	p = layout[0]; m = next_map;
	adopt(0, attempt, version[0] + 1, applied[0]); assert(version[0] < 16);
	for (i : 1 .. 2) {
		if
		:: IN(p, i) || IN(m, i) ->
			if
			:: FAULT == 15 && OF(p, i) == OF(m, i)
			:: else -> order(i, ADOPT, attempt, version[0], applied[0])
			fi
		:: else
		fi
	}
	for (i : 0 .. NW - 1) {
		if
		:: held[i] && FAULT != 4 ->
			if
			:: at[i] == PUSHED && gen[i] == GEN(held[i]) && runs[i] ->
				if
				:: FAULT == 8 -> computed[i] = 0; row[i] = 0; at[i] = GET
				:: else -> at[i] = ASK
				fi
			:: else
			fi;
			held[i] = 0
		:: waits[i] && FAULT == 16 ->
			waits[i] = 0; last[i] = 0; if :: at[i] == PUSHED -> at[i] = ASK :: else fi
		:: else
		fi
	}
	/* Those that stay are waited for. */
	move = ADOPTING; told = 1;
	for (i : 1 .. 2) { if :: !IN(m, i) -> told = told | BIT(i) :: else fi }
	p = 0; i = 0; m = 0
}
inline adopted() {
	end_move();
	if :: layout[0] == target -> answer_move(MOVED) :: else -> begin_piece() fi
}

/* A lead that dies, or is not in force any more: its settle may still be read. */
inline stop_lead() {
	part_clear(0); phase = OPEN; cut = NONE; refused = 0; settle_number = 0;
	writers = 0; written = 0; attempt = 0; target = 0; end_move(); old_move = 0; old_target = 0;
	if :: ask[life] != SETTLE -> ask_clear(life) :: else fi;
	for (i : 0 .. NW - 1) {
		state[i] = OUT; member[i] = 0; fenced[i] = 0; throw_to[i] = 0; held[i] = 0; sent[i] = 0;
		fence_due[i] = 0; last[i] = 0; clock[i] = 0; waits[i] = 0;
		if :: at[i] == JOINING || at[i] == PUSHED -> at[i] = JOIN :: else fi
	}
	for (i : 1 .. 2) {
		link[i] = 0;
		do :: nempty(orders[i]) -> orders[i]?_, _, _, _ :: empty(orders[i]) -> break od
	}
	do :: nempty(answers) -> answers?_, _, _ :: empty(answers) -> break od;
	new_queue = 0; for (i : 0 .. CELLS - 1) { new_rows[i] = 0 }
	if
	:: step == FENCE || step == FENCED || step == ASK_MAP || step == MOVE || step == MOVING ->
		step = LOOKS; about = 0; with = 0
	:: else
	fi;
	i = 0
}
inline stop_cut() {
	cut = NONE; writers = 0; written = 0; new_queue = 0;
	for (j : 0 .. CELLS - 1) { new_rows[j] = 0 }
	j = 0
}

proctype Lead() {
end:	do
	:: d_step { up[0] && CAN_CLOSE && !ANY(CAN_FENCE) ->
		for (i : 0 .. NW - 1) { sent[i] = held[i]; held[i] = 0 }
		i = 0;
		phase = HOLDING; if :: BSP -> let_in() :: else fi }
	:: d_step { up[0] && phase == SETTLING && ask[life] == SETTLED ->
		refused = refusals; ask_clear(life); phase = KNOWN }
	:: d_step { up[0] && phase == KNOWN ->
		for (i : 0 .. NW - 1) {
			if
			:: HAS_STEP(i) ->
				assert(FOR(sent[i]) == OF(layout[0], 0));
				for (j : 0 .. CELLS - 1) {
					if
					:: OWNER(layout[0], j) == 0 ->
						assert(!(rows[0].c[j] & ROWS(sent[i])));
						rows[0].c[j] = rows[0].c[j] | ROWS(sent[i])
					:: else
					fi
				}
				if :: !BSP -> applied[0]++ :: else fi
			:: else
			fi
		}
		if :: BSP -> applied[0]++ :: else fi;
		p = (HAS_STEP(0) -> NAME(sent[0]) : 0);
#if NW == 2
		q = (HAS_STEP(1) -> NAME(sent[1]) : 0);
#endif
		if :: BSP || p || q -> order_all(APPLY, p, q, applied[0]) :: else fi;
		p = 0; q = 0; j = 0; phase = OPEN;
		for (m : 0 .. NW - 1) { finish(m) }
		i = 0; m = 0; refused = 0 }
	:: d_step { up[0] && ask[life] == OUTDATED -> ask_clear(life); stop_lead() }
	:: d_step { up[0] && CAN_LET_IN -> let_in() }
	:: d_step { up[0] && ANY(CAN_FENCE) ->
		m = (CAN_FENCE(0) -> 0 : 1); fence(m); m = 0 }
	:: d_step { up[0] && ANY(CAN_RELEASE) ->
		m = (CAN_RELEASE(0) -> 0 : 1); waits[m] = 0; tell(m, member[m], PUSHED, 1); m = 0 }
	/* a worker's connection closes */
	:: d_step { QUIET && state[0] != OUT && !(runs[0] && gen[0] == member[0]) -> out(0) }
#if NW == 2
	:: d_step { QUIET && state[1] != OUT && !(runs[1] && gen[1] == member[1]) -> out(1) }
#endif
	/* parts come and go */
	:: d_step { QUIET && (link[1] == 2 || link[2] == 2) ->
		k = (link[1] == 2 -> 1 : 2); link[k] = 0;
		if :: move != STILL && move != ADOPTING && INVOLVED(k) -> give_up() :: else fi;
		if
		:: cut != NONE && (writers & BIT(k)) && !(written & BIT(k)) -> stop_cut()
		:: else
		fi;
		k = 0 }
	:: d_step { QUIET && ((link[1] == 0 && up[1]) || (link[2] == 0 && up[2])) ->
		k = (link[1] == 0 && up[1] -> 1 : 2);
		if
		:: inc_of[k] == inc_of[0] &&
		   (!IN(layout[0], k) || version[k] == version[0] || FAULT == 14) -> link[k] = 1
		:: else -> assert(died); stop_lead()       /* it lacks what is committed */
		fi;
		k = 0 }
	/* a move */
	:: d_step { up[0] && answers?[PREPARE, _, _] ->
		answers?_, p, q;
		if :: move == PREPARING && p == attempt -> told = told | BIT(q) :: else fi;
		if :: move == PREPARING && told == 7 -> move = READY :: else fi;
		p = 0; q = 0 }
	:: d_step { up[0] && answers?[GIVE, _, _] ->
		answers?_, p, q;
		if :: move == GIVING && (p == attempt || FAULT == 2) -> given = given | BIT(q) :: else fi;
		p = 0; q = 0 }
	:: d_step { up[0] && CAN_GIVE ->
		move = GIVING; p = layout[0];
		for (i : 0 .. CELLS - 1) {
			if :: OWNER(p, i) == OWNER(next_map, i) -> given = given | BIT(i) :: else fi
		}
		for (i : 1 .. 2) {
			if :: OF(p, i) & ~OF(next_map, i) -> order(i, GIVE, attempt, 0, 0) :: else fi
		}
		give(0, attempt); p = 0; i = 0 }
	:: d_step { up[0] && CAN_COMMIT -> commit() }
	:: d_step { up[0] && answers?[ADOPT, _, _] ->
		answers?_, p, q;
		if :: move == ADOPTING && p == attempt -> told = told | BIT(q) :: else fi;
		p = 0; q = 0 }
	:: d_step { up[0] && CAN_GO_ON -> adopted() }
	:: d_step { QUIET && move != STILL && move != ADOPTING && late < LATE -> late++; give_up() }
	/* a cut */
	:: d_step { QUIET && cut == NONE && cuts < CUTS && done != ALL -> cuts++; cut = WANTED }
	:: d_step { up[0] && CAN_SAVE ->
		cut = SAVING; ask[life] = SAVE; ask_incarnation[life] = inc_of[0] }
	:: d_step { up[0] && cut == SAVING && ask[life] == SAVED ->
		ask_clear(life); cut = WRITING; written = 1;
		writers = 1 | (IN(layout[0], 1) -> 2 : 0) | (IN(layout[0], 2) -> 4 : 0);
		for (i : 0 .. CELLS - 1) {
			if :: OWNER(layout[0], i) == 0 -> new_rows[i] = rows[0].c[i] :: else fi
		}
		i = 0; order_all(CUT, 0, 0, 0) }
	:: d_step { up[0] && cut == WRITING && written == writers ->
		for (i : 0 .. CELLS - 1) { assert(new_queue == new_rows[i]); cut_rows[i] = new_rows[i] }
		i = 0; cut_queue = new_queue; stop_cut() }
	od
}

/* A worker's conversation with the lead. */
proctype Members(byte w) {
end:	do
	:: d_step { at[w] == JOIN && runs[w] && HEARS(w) ->
		if
		:: gen[w] <= fenced[w] -> refuse(w)
		:: else ->
			if :: member[w] && member[w] < gen[w] -> out(w) :: else fi;
			member[w] = gen[w]; state[w] = JOINED; at[w] = JOINING
		fi }
	:: d_step { at[w] == ASK && runs[w] && HEARS(w) ->
		if
		:: version[0] >= map_of[w] -> map_of[w] = version[0]; parts_of[w] = layout[0]
		:: else
		fi;
		if :: computed[w] -> to_stage(w) :: else -> to_pull(w) fi }
	:: d_step { at[w] == PUSH && runs[w] && HEARS(w) ->
		if
		:: !(state[w] == ACTIVE && member[w] == gen[w] && gen[w] > fenced[w] && !held[w]) ->
			refuse(w)
		:: else ->
			if
			:: last[w] == PUSH_OF(gen[w], sequence[w], 0) >> 3 ->
				row[w] = 0; sequence[w] = !sequence[w]; computed[w] = 0;  /* said again */
				iteration[w] = applied[0]; at[w] = GET
			:: last[w] != PUSH_OF(gen[w], sequence[w], 0) >> 3 && map_of[w] != version[0] &&
			   FAULT != 7 -> at[w] = ASK
			:: else ->
				held[w] = PUSH_OF(gen[w], sequence[w], row[w]) | (OF(parts_of[w], 0) << 7);
				at[w] = PUSHED
			fi
		fi }
	:: d_step { at[w] == LEAVE && runs[w] && HEARS(w) ->
		if :: member[w] == gen[w] -> out(w) :: else fi;
		takes_part[w] = 0; at[w] = GET }
	:: d_step { at[w] == REFUSED && runs[w] && HEARS(w) ->
		if :: member[w] == gen[w] -> out(w) :: else fi;
		forget(w) }
	:: d_step { at[w] == REFUSED && runs[w] && (!up[0] || inc_of[0] > inc[w]) -> forget(w) }
	/* the servers came back with another incarnation */
	:: d_step { (at[w] == JOIN || at[w] == ASK || at[w] == PULL || at[w] == STAGE || at[w] == PUSH ||
		at[w] == LEAVE || at[w] == END) && runs[w] && up[0] && inc_of[0] > inc[w] -> forget(w) }
	od
}

#define HERE (place[w])
/* A worker's conversation with the parts. */
proctype Pulls(byte w) {
end:	do
	:: d_step { (at[w] == PULL || at[w] == STAGE) && runs[w] && up[HERE] && inc_of[HERE] == inc[w] &&
		version[HERE] && (version[HERE] == map_of[w] || FAULT == 7) &&
		applied[HERE] >= iteration[w] ->
		if
		:: at[w] == PULL ->
			assert(OF(layout[HERE], HERE) == OF(parts_of[w], HERE));
			for (j : 0 .. CELLS - 1) {
				assert(OWNER(layout[HERE], j) != HERE || !BSP || member[w] != gen[w] ||
					state[w] != ACTIVE || rows[HERE].c[j] == rows[0].c[0])
			}
			j = 0;
			onward(w, place[w] + 1, PULL, STAGE);
			if :: at[w] == STAGE -> to_stage(w) :: else fi
		:: at[w] == STAGE && gen[w] <= thrown[NW * HERE + w] -> refuse(w)
		:: else ->
			staged[HERE].w[w] = PUSH_OF(gen[w], sequence[w], row[w]) |
				(OF(parts_of[w], HERE) << 7);
			onward(w, place[w] + 1, STAGE, PUSH)
		fi }
	/* err code=map: another version here; or the connection closes, and it may have left */
	:: d_step { (at[w] == PULL || at[w] == STAGE) && runs[w] && up[0] && inc_of[0] == inc[w] &&
		version[0] != map_of[w] && FAULT != 7 &&
		((up[HERE] && inc_of[HERE] == inc[w] && version[HERE] > map_of[w]) ||
		 (!up[HERE] && FAULT != 13)) -> place[w] = 0; at[w] = ASK }
	od
}

/* What the lead orders of a part. */
inline apply_one(s, w_, push) {
	if
	:: push ->
		assert(NAME(staged[s].w[w_]) == push);
		assert(FOR(staged[s].w[w_]) == OF(layout[s], s));
		for (j : 0 .. CELLS - 1) {
			if
			:: OWNER(layout[s], j) == s ->
				assert(!(rows[s].c[j] & ROWS(push)));
				rows[s].c[j] = rows[s].c[j] | ROWS(push)
			:: else
			fi
		}
		j = 0; staged[s].w[w_] = 0
	:: else
	fi
}
proctype Part(byte s) {
end:	do
	:: d_step { up[s] && orders[s]?[APPLY, _, _, _] ->
		orders[s]?_, p, q, k; apply_one(s, 0, p);
#if NW == 2
		apply_one(s, 1, q);
#endif
		applied[s] = k; k = 0;
		if
		:: BSP -> for (i : 0 .. NW - 1) { staged[s].w[i] = 0 }
		:: else
		fi;
		i = 0; p = 0; q = 0 }
	:: d_step { up[s] && orders[s]?[THROW, _, _, _] ->
		orders[s]?_, p, q, _; raise(thrown[NW * s + p], q);
		if :: GEN(staged[s].w[p]) <= q -> staged[s].w[p] = 0 :: else fi;
		p = 0; q = 0 }
	:: d_step { up[s] && orders[s]?[CUT, _, _, _] ->
		orders[s]?_, _, _, _;
		for (i : 0 .. CELLS - 1) {
			if :: OWNER(layout[s], i) == s -> new_rows[i] = rows[s].c[i] :: else fi
		}
		i = 0; written = written | BIT(s) }
	:: d_step { up[s] && orders[s]?[PREPARE, _, _, _] && nfull(answers) ->
		orders[s]?_, p, q, _; prepared[s] = p; next_of[s] = q; p = 0; q = 0;
		answers!PREPARE, prepared[s], s }
	:: d_step { up[s] && orders[s]?[GIVE, _, _, _] ->
		orders[s]?_, p, _, _; if :: prepared[s] == p -> give(s, p) :: else fi; p = 0 }
	:: d_step { up[s] && orders[s]?[ADOPT, _, _, _] && nfull(answers) ->
		orders[s]?_, p, q, k; adopt(s, p, q, k);
		if :: link[s] == 1 -> answers!ADOPT, p, s :: else fi;
		p = 0; q = 0; k = 0 }
	:: d_step { up[s] && orders[s]?[CANCEL, _, _, _] ->
		orders[s]?_, p, _, _; if :: prepared[s] == p -> keep_own(s) :: else fi; p = 0 }
	od
}
proctype Holds() {
end:	do
	:: d_step { up[0] && SERVERS && phase == HOLDING && empty(orders[1]) && empty(orders[2]) ->
		for (i : 1 .. 2) {
			for (j : 0 .. NW - 1) {
				assert(!IN(layout[0], i) || !sent[j] ||
					NAME(staged[i].w[j]) == NAME(sent[j]))
			}
		}
		i = 0; j = 0; ask_settle() }
	od
}
/* What a giver sends. */
proctype Takes(byte s) {
	byte a, c, r;
end:	do
	:: d_step { up[s] && nempty(gifts[s]) && nfull(answers) ->
		gifts[s]?a, c, r;
		if
		:: prepared[s] == a || FAULT == 2 ->
			aside[s] = aside[s] | BIT(c); came[s].c[c] = r;
			if :: up[0] -> answers!GIVE, a, c :: else fi
		:: else
		fi;
		a = 0; c = 0; r = 0 }
	od
}

/* ---- the supervisor ---- */
inline idle() { step = LOOKS; about = 0; with = 0 }
#define LACKS(s) (IN(wanted, s) && !up[s])
#define SPARED(s) (up[s] && !IN(wanted, s))
#define SPARE(s) (up[s] && !IN(known, s) && (!IN(wanted, s) || version[s] != 0))

/* What it was told while something moved is asked again, till nothing does; here, when the answer
 * is another one. */
#define MAY_ASK (!knows || (knows == 1 && (move == STILL || version[0] != known_version)))
#define IS_LOST(s) (IN(known, s) && !up[s])
inline hear_map() {
	knows = (move == STILL || FAULT == 18 || FAULT == 14 -> 2 : 1); known = layout[0];
	known_version = version[0]
}

proctype Supervisor() {
	do
	:: d_step { wanted == FROM && !second && !finished -> wanted = TO; second = (THEN == TO) }
	:: d_step { wanted == TO && THEN != TO && !second && knows == 2 && known == TO ->
		second = 1; wanted = THEN }
	/* a worker's death */
	:: d_step { step == LOOKS && !intent && up[0] && !runs[0] -> about = 0; step = FENCE }
#if NW == 2
	:: d_step { step == LOOKS && !intent && up[0] && !runs[1] -> about = 1; step = FENCE }
#endif
	:: d_step { step == FENCE && QUIET ->
		with = (force[about] -> force[about] : newest[about]);
		raise(fenced[about], with); fence_due[about] = 1; step = FENCED }
	:: d_step { step == FAIL ->
		force[about] = 0; give_back(about); runs[about] = 1; idle() }
	/* the map: asked whenever it is not known */
	:: d_step { step == LOOKS && !intent && up[0] && MAY_ASK -> step = ASK_MAP }
	:: d_step { step == ASK_MAP && QUIET -> hear_map(); idle() }
	/* also while a fence is waited for: that may wait for a part of this map, which has died */
	:: d_step { step == FENCED && !intent && MAY_ASK && QUIET -> hear_map() }
	/* a part of it that is not there, or the lead */
	:: d_step { (step == LOOKS || step == FENCE || step == FENCED) && !intent &&
		(!up[0] || (((knows && FAULT != 20) || knows == 2) && (IS_LOST(1) || IS_LOST(2)))) ->
		assert(died); idle(); intent = 1; knows = 0; intent_queue = cut_queue;
		for (i : 0 .. CELLS - 1) { intent_rows[i] = cut_rows[i] }
		i = 0 }
	/* from the map that is to the one that is wanted */
	:: d_step { step == LOOKS && !intent && up[0] && knows == 2 && known != wanted &&
		(LACKS(1) || LACKS(2)) ->
		k = (LACKS(1) -> 1 : 2); start_joiner(k); k = 0 }
	:: d_step { step == LOOKS && !intent && up[0] && knows == 2 && known != wanted &&
		!LACKS(1) && !LACKS(2) && !SPARE(1) && !SPARE(2) && !IS_LOST(1) && !IS_LOST(2) ->
		step = MOVE; about = wanted }
	:: d_step { step == MOVE && QUIET && move == STILL &&
		(ARE_THERE(about) || about == layout[0]) -> serve_move(about) }
	:: d_step { step == MOVE && QUIET && move != STILL -> idle(); knows = 0 }   /* err code=moving */
	/* a part died meanwhile: there may be no answer */
	:: d_step { (step == MOVE || step == MOVING) && !knows -> idle() }
	:: d_step { FAULT == 10 && step == MOVING && (SPARED(1) || SPARED(2)) ->
		k = (SPARED(1) -> 1 : 2); stop_part(k); k = 0 }
	:: d_step { step == MOVED -> knows = 0; idle() }
	:: d_step { step == FAILED ->
		if
		:: FAULT == 12 ->
			for (i : 1 .. 2) { if :: up[i] && !IN(known, i) -> stop_part(i) :: else fi }
			i = 0
		:: else
		fi;
		knows = 0; idle() }
	:: d_step { step == LOOKS && !intent && knows == 2 && known != wanted && gave < GIVEUP ->
		gave++; wanted = known; second = 1 }
	/* what is in no map is stopped, unless it is there to join */
	:: d_step { step == LOOKS && !intent && up[0] && knows == 2 && (SPARE(1) || SPARE(2)) ->
		k = (SPARE(1) -> 1 : 2); stop_part(k); k = 0 }
	/* a rollback */
	:: d_step { step == LOOKS && intent && up[0] -> stop_lead() }
	:: d_step { step == LOOKS && intent && !up[0] && (up[1] || up[2]) ->
		k = (up[1] -> 1 : 2); stop_part(k); k = 0 }
	:: d_step { step == LOOKS && intent && !up[0] && !up[1] && !up[2] -> step = LOAD }
	:: d_step { step == LOAD ->
		k = (FAULT == 17 -> done : intent_queue);
		load(k); k = 0; step = START }
	:: d_step { step == START ->
		life = !life; ask_clear(life); known_version++;
		for (i : 0 .. 2) {
			if
			:: IN(wanted, i) ->
				up[i] = 1; inc_of[i] = incarnation; version[i] = known_version; layout[i] = wanted;
				for (j : 0 .. CELLS - 1) {
					if :: OWNER(wanted, j) == i -> rows[i].c[j] = intent_rows[j] :: else fi
				}
			:: else
			fi
		}
		i = 0; j = 0; intent = 0; intent_queue = 0;
		for (i : 0 .. CELLS - 1) { intent_rows[i] = 0 }
		i = 0; idle() }
	/* the end */
	:: d_step { step == LOOKS && !intent && QUIET && SERVERS && done == ALL && cut == NONE &&
		move == STILL && knows == 2 && known == wanted && second && !SPARE(1) && !SPARE(2) &&
		!finished ->
		if
		:: cut_queue != ALL -> cut = WANTED
		:: else ->
			for (i : 0 .. CELLS - 1) { assert(cut_rows[i] == ALL) }
			i = 0; finished = 1
		fi }
	:: finished -> break
	od
}

#if CRASH
proctype Crashes() {
end:	do
#if CRASH & LEAD
	:: d_step { !finished && WILL_DIE(LEAD) && up[0] -> died = died | LEAD; stop_lead() }
#endif
#if CRASH & PART_1
	:: d_step { !finished && WILL_DIE(PART_1) && up[1] -> died = died | PART_1; stop_part(1) }
#endif
#if CRASH & PART_2
	:: d_step { !finished && WILL_DIE(PART_2) && up[2] -> died = died | PART_2; stop_part(2) }
#endif
#if CRASH & WORKER_0
	:: d_step { !finished && WILL_DIE(WORKER_0) && runs[0] ->
		died = died | WORKER_0; forget(0); map_of[0] = 0; parts_of[0] = 0; runs[0] = 0 }
#endif
#if CRASH & WORKER_1
	:: d_step { !finished && WILL_DIE(WORKER_1) && runs[1] ->
		died = died | WORKER_1; forget(1); map_of[1] = 0; parts_of[1] = 0; runs[1] = 0 }
#endif
#if CRASH & SUPERVISOR
	/* A move that it asked for may be heard later. */
	:: d_step { !finished && WILL_DIE(SUPERVISOR) ->
		died = died | SUPERVISOR; old_move = (step == MOVE); old_target = (old_move -> about : 0);
		idle(); knows = 0; known = 0; known_version = 1 }
	:: d_step { old_move && QUIET ->
		if :: move == STILL && ARE_THERE(old_target) -> serve_move(old_target) :: else fi;
		old_move = 0; old_target = 0 }
#endif
	od
}
#endif

init {
	atomic {
		for (i : 0 .. 2) {
			if :: IN(FROM, i) -> up[i] = 1; inc_of[i] = 1; version[i] = 1; layout[i] = FROM :: else fi
		}
		i = 0;
		run Shardd(0); run Members(0); run Pulls(0);
#if NW == 2
		run Shardd(1); run Members(1); run Pulls(1);
#endif
		run Commits(0); run Lead(); run Holds(); run Supervisor();
		run Part(1); run Part(2); run Takes(0); run Takes(1); run Takes(2);
#if CRASH
		run Commits(1); run Crashes();
#endif
	}
}
