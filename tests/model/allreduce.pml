/*
 * SYNC=allreduce (paceline-protocol(7)) as a Spin model: two hosts,
	each with a replica that has all
 * parameters and with a worker; the lead and shardd on host 0; the fabric between the hosts; a
 * supervisor.  N rows, one epoch.  Parameters are the audit model's: the set of rows that are in
 * them.
 *
 *     spin -DCRASH=20 -search -O2 allreduce.pml            replica 0 and the lead die, at any step
 *     spin -DFAULT=3 -DCRASH=64 -search -O2 allreduce.pml  a fault: it must find an error
 *
 * tests/model/run has the configurations.  Checked: no row is in a replica twice; a replica of a
 * version has the rows that shardd has committed up to it, so that replicas are equal; a replica
 * that is told to step has the sum; at every cut the queue and the parameters have the same rows; in
 * the end the last cut has all of them; nobody waits for ever; the job is rolled back only when no
 * replica has, or can make, what was committed.
 *
 * As in batch.pml, a client does nothing between a request and its answer,
	and the step of the daemon
 * that serves it moves the client on.  What is a message here is what may be on its way while
 * somebody dies: orders to replicas, settles,
	contributions and results of the fabric.  Which rows a
 * worker has, how a drop is asked for, a load, an old incarnation: batch.pml has that.
 */
#ifndef N
#define N 2      /* rows */
#endif
#ifndef BACKUP
#define BACKUP 0 /* 1: a unit closes without one of its two members */
#endif
#ifndef LATE
#define LATE 0   /* 1: a sum goes on without a member that has not computed its rows yet */
#endif
#ifndef CUTS
#define CUTS 0   /* checkpoints at any time, besides the last one */
#endif
/* CRASH, a sum: each once, at any step. */
#define WORKER_0 1
#define WORKER_1 2
#define REPLICA_0 4
#define REPLICA_1 8
#define LEAD 16
#define SHARDD 32
#define FABRIC 64
#define HOST_1 128     /* it goes for good, with all that is on it; \
	its worker is placed on host 0 */
#define PERSON 256     /* says `fail` of worker 0 */
#define LEAD_AGAIN 512 /* the new lead, too */
#ifndef CRASH
#define CRASH 0
#endif
#ifndef ENDS
#define ENDS 0   /* 1: a fill that failed is not tried again before there is a source for it */
#endif
#ifndef LIES
#define LIES 0   /* 1: worker 0 tells its replica once of another push than the lead, or of none */
#endif
#ifndef FAULT
#define FAULT 0
#endif
/* FAULT: what the protocol leaves out or does wrong.
 *  1 a settle of which shardd refuses one worker commits the others
 *  2 the lead settles when the first replica has the sum
 *  3 the fabric adds what has different rounds
 *  4 a new lead does not ask what was committed, but goes by the first replica that it finds
 *  5 a settle of an older term is taken
 *  6 who comes back behind a new fabric goes on with the round that was open
 *  7 the fabric sums over the hosts that there are, not over those listed
 *  8 settles go on while a replica is filled
 *  9 the lead does not see that a replica is another life of it
 * 10 the job is rolled back only when no replica lives
 * 11 what is staged at its source comes with the parameters of a fill
 * 12 a new lead counts its rounds from the first again
 * 13 replicas are told to step before the settle was answered
 * 14 a step that was told before is taken again
 * 15 what is in a sum is not staged any more: a new round lacks it
 * 16 a cut does not wait for the steps that were ordered before it
 * 17 settles go on between `save` and the order to cut
 * 18 a replica sums all that is staged for the iteration, not only what is listed
 * 19 a settle that is said again is judged anew
 * 20 a fill that an older lead ordered is still taken
 * 21 a unit whose members are all gone is not settled, but replicas count it
 * 22 the lead does not compare what was summed of a member with what it was told
 * 23 the lead does not tell replicas which pushes it has
 * 24 who is late stays a member when nobody else is left in the iteration
 * 25 who is late is not told for which iteration it computes
 * 26 with ENDS, a fill that failed is tried again at once, for ever
 */
#define ALL ((1 << N) - 1)
#define BIT(n) (1 << (n))
#define GEN(l, w) (((l) >> (4 * (w))) & 15)   /* of a list of members: w's generation */
#define AS_GEN(w, g) ((g) << (4 * (w)))

/* ---- shardd: all of it is in its journal ---- */
byte hand[2], done;
byte force[2], newest[2];        /* of each worker the generation in force, and the last one */
byte term = 1, committed, note;  /* of the lead; iterations, and the round of the last one */
byte was_done[N + 4];            /* the rows of each version */
byte number, refusals;           /* of the last settle (its round), and its answer */
#define TODO (ALL & ~(done | hand[0] | hand[1]))

/* ---- a settle, of each of two lives of the lead; one of them runs ---- */
mtype = { NOTHING, ASKED, ANSWERED };
mtype ask[2] = NOTHING;
byte ask_term[2], ask_round[2], ask_rows[4], answered[2]; /* rows: 2 * life + worker */
byte ask_list[2];
byte life;

/* ---- the lead ---- */
bool up = 1, learns;             /* learns: new, it does not know what was committed */
byte lead_term = 1, version, round = 16, applied_round;
mtype = { GATHER, OPEN, SETTLING };
mtype phase = GATHER;
bool closed;                     /* the unit: its members have pushed; nobody enters it any more */
byte list;                       /* the members of the round */
byte force_set = 3, summed, connected = 3, filling; /* replicas, as bits */
byte member[2], pushed[2], late[2]; /* generation; rows of the unit; rows that came too late */
bool left[2];                    /* its connection is gone */
bool ready[2];                   /* LATE: its rows are computed */
byte skips[2];                   /* the iteration for which it computes since it was late */
mtype = { NONE, WANTED, SAVING, SAVED, WRITING };
mtype cut = NONE;
byte cutter, cuts;

/* ---- orders to replicas: 2 * life + replica ---- */
mtype = { SUM, APPLY, FILL, CUT };
chan orders[4] = [3] of { mtype, byte, byte, byte, byte }; /* round, version, list, hosts */

/* ---- replicas ---- */
mtype = { DEAD, EMPTY, SERVES };
mtype state[2] = SERVES;
byte iteration[2], rows[2];      /* its version, and what is in its parameters */
byte ordered[2], of_list[2], of_hosts[2]; /* the newest round that it was told */
byte held[2], held_rows[2];      /* round of the sum that it has; 0: none */
byte staged[2], staged_gen[2], staged_at[2]; /* by worker: rows, generation, iteration */
byte extra[2];                   /* FAULT 11 */
byte said[2];                    /* with LIES, of each worker: what was added for it */
bool lied;

/* ---- the fabric ---- */
bool fabric = 1;
byte given[2], given_rows[2];    /* by host: round and rows of what its replica gave */
byte result[2], result_rows[2];

/* ---- workers ---- */
mtype = { HELLO, GET, JOIN, WORK, COMPUTED, TELL, WAIT, END, GONE, FENCED };
mtype at[2] = HELLO;             /* GONE: dead, the supervisor has not seen it;
	FENCED: at the lead */
byte gen[2], row[2], turn[2];    /* turn: its iteration */
bool takes_part[2];
byte place[2];                   /* its host */

/* ---- checkpoints ---- */
byte cut_queue, cut_rows, cut_version, new_queue, new_rows, new_version;

bool gone, finished;             /* host 1 */
short died;                      /* of CRASH */
hidden byte i, j, k, m, a, b, c, d;
hidden mtype what;

#define REACHED(h) ((h) == 0 || fabric)
#define RUNS (up && !learns && !finished)
#define ROOM (len(orders[2 * life]) < 3 && len(orders[2 * life + 1]) < 3)
#define MAY_DIE(x) ((CRASH & (x)) && !(died & (x)) && !finished)
/* It has what was committed last, or the sum that makes it. */
#define FIT(r) (state[r] == SERVES && (iteration[r] == committed || \
	(iteration[r] + 1 == committed && held[r] == note && note)))

/* ---- the lead ---- */

inline tell(r, order, n, v, l, h) {
	if
	:: (force_set & BIT(r)) && (connected & BIT(r)) -> orders[2 * life + r]!order, n, v, l, h
	:: else
	fi;
	j = 0
}
inline answer(w, ok) {
	if
	:: at[w] == WAIT && ok -> row[w] = 0; turn[w] = version; at[w] = GET
	:: at[w] == WAIT && !ok -> takes_part[w] = 0; gen[w] = 0; row[w] = 0; at[w] = HELLO
	:: else
	fi;
	j = 0
}
#define ACTIVE(w) (member[w] && !left[w])
#define OUT(w) (LATE && skips[w] > version)
#define PUSHED_ALL ((!GEN(list, 0) || pushed[0]) && (!GEN(list, 1) || pushed[1]))
inline close_unit() {
	if :: phase == OPEN && list && PUSHED_ALL -> closed = 1 :: else fi;
	j = 0
}
/* A new round: its members, and what replicas are told. Without backup workers it is opened before
 * the pushes are there; with them, when the unit is closed. What is closed stays so, whoever of its
 * members goes: others may have been let into the next unit. */
inline new_round() {
	list = 0; summed = 0; closed = closed | BACKUP;
	for (j : 0 .. 1) {
		if
		:: member[j] && !left[j] && (!closed || pushed[j]) && !OUT(j) &&
				(force_set & BIT(place[j])) ->
			list = list | AS_GEN(j, member[j])
		:: else
		fi
	}
	round++; assert(round & 15);
	if
	:: list == 0 && !closed -> phase = GATHER
	:: else ->
		phase = OPEN;
		if
		:: list -> tell(0, SUM, round, version, list, force_set);
			tell(1, SUM, round, version, list, force_set)
		:: else
		fi;
		close_unit()
	fi;
	j = 0
}
/* Its part in a round that is not being settled ends with it. */
inline out(w) {
	assert(phase != SETTLING || !GEN(list, w));
	member[w] = 0; late[w] = 0; left[w] = 0; pushed[w] = 0; ready[w] = 0; skips[w] = 0;
	if :: phase == OPEN && GEN(list, w) -> new_round() :: else fi;
	j = 0
}
inline members_of_replicas() {
	for (k : 0 .. 1) {
		if
		:: member[k] && !(force_set & BIT(place[k])) ->
			member[k] = 0; late[k] = 0; pushed[k] = 0; left[k] = 0;
			ready[k] = 0; skips[k] = 0; answer(k, 0)
		:: else
		fi
	};
	j = 0
}
inline replica_out(r) {
	m = force_set & BIT(r); force_set = force_set & ~BIT(r); summed = summed & ~BIT(r);
		filling = filling & ~BIT(r);
	connected = connected & ~BIT(r);
	do :: len(orders[2 * life + r]) > 0 -> orders[2 * life + r]?_,_,_,_,_ :: else -> break od;
	if :: cut == WRITING && cutter == r -> cut = NONE :: else fi;
	if
	:: m && phase != SETTLING -> members_of_replicas();
		if :: phase == OPEN -> new_round() :: else fi
	:: else
	fi;
	m = 0
}
inline replica_in(r) {
	force_set = force_set | BIT(r); connected = connected | BIT(r); filling = filling & ~BIT(r);
	if :: phase == OPEN && FAULT != 6 -> new_round() :: else fi;
	j = 0
}
inline send_settle() {
	phase = SETTLING; ask[life] = ASKED; ask_term[life] = lead_term; ask_round[life] = round;
	ask_list[life] = list; answered[life] = 0;
	for (j : 0 .. 1) { ask_rows[2 * life + j] = (GEN(list, j) -> pushed[j] : 0) };
	j = 0
}
inline step() {
	if
	:: list -> tell(0, APPLY, round, version, 0, 0); tell(1, APPLY, round, version, 0, 0)
	:: else -> tell(0, APPLY, 0, version, 0, 0); tell(1, APPLY, 0, version, 0, 0)
	fi;
	j = 0
}
inline commit() {
	if :: FAULT != 13 -> step() :: else fi;
	version++; applied_round = round; phase = GATHER; closed = 0;
	for (k : 0 .. 1) {
		if
		:: GEN(list, k) -> pushed[k] = 0;
			if :: member[k] == GEN(list, k) -> answer(k, 1) :: else fi
		:: else
		fi
	}
	list = 0; summed = 0;
	members_of_replicas();
	j = 0
}
inline settle_answered() {
	m = answered[life];
	if
	:: m == 0 || FAULT == 1 -> commit()
	:: m && FAULT != 1 ->            /* nothing was committed; those are out */
		phase = OPEN;
		for (k : 0 .. 1) {
			if
			:: m & BIT(k) -> pushed[k] = 0; late[k] = 0;
				if :: member[k] == GEN(list, k) ->
					member[k] = 0; skips[k] = 0; answer(k, 0) :: else fi
			:: else
			fi
		}
		members_of_replicas(); new_round()
	fi;
	ask[life] = NOTHING; ask_rows[2 * life] = 0; ask_rows[2 * life + 1] = 0; ask_list[life] = 0;
	ask_term[life] = 0; ask_round[life] = 0; answered[life] = 0; m = 0;
	j = 0
}
inline drop(w) {
	if
	:: force[w] == member[w] && hand[w] == late[w] -> hand[w] = 0
	:: else
	fi;
	late[w] = 0; answer(w, 1);
	j = 0
}
inline write(r) {
	new_rows = rows[r]; assert(new_rows == new_queue && iteration[r] == new_version);
	cut_queue = new_queue; cut_rows = new_rows; cut_version = new_version;
	new_queue = 0; new_rows = 0; new_version = 0; cut = NONE;
	j = 0
}
#define IN_FORCE(w) (ACTIVE(w) && (force_set & BIT(place[w])))
#define READY(w) (IN_FORCE(w) && pushed[w])
#define ENOUGH ((READY(0) && READY(1)) || (READY(0) && (BACKUP || !ACTIVE(1))) || \
	(READY(1) && (BACKUP || !ACTIVE(0))))
/* LATE: of whom it is known; the others are late. */
#define COUNTS(w) (IN_FORCE(w) && !OUT(w))
#define KNOWN(w) (!COUNTS(w) || ready[w] || pushed[w])
#define SUMMED_ALL (list == 0 || (summed == force_set && force_set) || (FAULT == 2 && summed))
#define HELD_UP ((filling && FAULT != 8) || ((cut == WANTED || cut == SAVING || cut == SAVED) && \
	FAULT != 17))

/* What was added of a member is not what it has told the lead, or the lead has a push that its
 * replica has not: it is out for good. */
#define IS_LIE(w) (LIES && GEN(list, w) && said[w] != pushed[w])
#define LACKS(w) (LIES && GEN(list, w) && state[place[w]] == SERVES && \
	iteration[place[w]] == version && ordered[place[w]] == round && \
	!(staged_gen[w] == GEN(list, w) && staged_at[w] == version))
inline refuse(w) {
	assert(lied && w == 0);
	out(w); answer(w, 0);
	j = 0
}

/* It is told, and computes the same rows anew. */
inline be_late(w) {
	skips[w] = version + 1;
	if :: FAULT != 25 -> turn[w] = version + 1 :: else fi;
	j = 0
}

/* A replica that is not in force answers: where it is. */
inline look(r) {
	if
	:: state[r] == SERVES && iteration[r] == version -> replica_in(r)
	:: state[r] == SERVES && iteration[r] + 1 == version && held[r] == applied_round &&
			held[r] ->
		force_set = force_set | BIT(r); connected = connected | BIT(r);
		tell(r, APPLY, applied_round, version - 1, 0, 0);
		if :: phase == OPEN -> new_round() :: else fi
	:: else ->                       /* told as no member of the set: tell() would not */
		filling = filling | BIT(r); connected = connected | BIT(r);
		orders[2 * life + r]!FILL, round, version, 0, 0
	fi;
	j = 0
}
#define FITS_LEAD(r) (state[r] == SERVES && (iteration[r] == version || \
	(iteration[r] + 1 == version && held[r] == applied_round && held[r])))

#define FIT_SOURCE(r, v) (state[r] == SERVES && REACHED(1) && iteration[r] >= (v))
#define MAY_FILL(r) (force_set && (!ENDS || FAULT == 26 || FIT_SOURCE(1 - r, version)))

/* What the lead can do by itself it does before anybody else moves. */
#define OPENS (RUNS && phase == GATHER && force_set && ROOM && \
	(BACKUP -> ENOUGH : (COUNTS(0) || COUNTS(1)) && \
	(!LATE || (KNOWN(0) && KNOWN(1)))))
/* Nobody is late twice in a row, and half of them are ready: the other one. */
#define MAY_BE_LATE(w) (LATE && RUNS && !DUE && COUNTS(w) && !KNOWN(w) && \
	COUNTS(1 - w) && KNOWN(1 - w) && !(skips[w] && skips[w] == version) && REACHED(place[w]) && \
	at[w] == WORK && phase == GATHER)
#define IS_ALONE(w) (LATE && RUNS && !DUE && phase == GATHER && ACTIVE(w) && OUT(w) && \
	!COUNTS(1 - w) && FAULT != 24)
#define SETTLES (RUNS && phase == OPEN && force_set && closed && PUSHED_ALL && SUMMED_ALL && \
	!HELD_UP && \
	ROOM && ask[life] == NOTHING)
#define DROPS(w) (RUNS && phase != SETTLING && late[w] && turn[w] < version)
#define CUTS_NOW (RUNS && cut == WANTED && phase != SETTLING)
#define DUE (OPENS || SETTLES || DROPS(0) || DROPS(1) || CUTS_NOW)

proctype Lead() {
end:	do
	:: d_step { OPENS -> new_round() }
	:: d_step { MAY_BE_LATE(0) -> be_late(0) }
	:: d_step { MAY_BE_LATE(1) -> be_late(1) }
	:: d_step { IS_ALONE(0) -> out(0) }
	:: d_step { IS_ALONE(1) -> out(1) }
	:: d_step { SETTLES ->
		if
		:: FAULT == 21 && list == 0 -> commit()
		:: IS_LIE(0) && FAULT != 22 -> refuse(0)
		:: IS_LIE(1) && !IS_LIE(0) && FAULT != 22 -> refuse(1)
		:: else -> send_settle(); if :: FAULT == 13 -> step() :: else fi
		fi }
	:: d_step { FAULT != 23 && !DUE && RUNS && phase == OPEN && PUSHED_ALL && LACKS(0) &&
			ROOM -> refuse(0) }
	:: d_step { FAULT != 23 && !DUE && RUNS && phase == OPEN && PUSHED_ALL && LACKS(1) &&
			ROOM -> refuse(1) }
	/* what came too late is dropped, while no unit is being settled */
	:: d_step { DROPS(0) -> drop(0) }
	:: d_step { DROPS(1) -> drop(1) }
	:: d_step { CUTS_NOW -> cut = SAVING }
	:: d_step { !DUE && RUNS && phase == SETTLING && ask[life] == ANSWERED && ROOM ->
			settle_answered() }
	/* connections that are gone */
	:: d_step { !DUE && RUNS && left[0] && !(phase == SETTLING && GEN(list, 0)) && ROOM ->
			out(0) }
	:: d_step { !DUE && RUNS && left[1] && !(phase == SETTLING && GEN(list, 1)) && ROOM ->
			out(1) }
	:: d_step { !DUE && RUNS && ((force_set | filling) & 1) && !(connected & 1) && ROOM ->
			replica_out(0) }
	:: d_step { !DUE && RUNS && ((force_set | filling) & 2) && !(connected & 2) && ROOM ->
			replica_out(1) }
	/* and made again: never while a settle is out */
	:: d_step { !DUE && RUNS && phase != SETTLING && !(connected & 1) &&
			!((force_set | filling) & 1) && ROOM &&
		state[0] != DEAD && (FITS_LEAD(0) || MAY_FILL(0)) -> look(0) }
	:: d_step { !DUE && RUNS && phase != SETTLING && !(connected & 2) &&
			!((force_set | filling) & 2) && ROOM &&
		state[1] != DEAD && fabric && (FITS_LEAD(1) || MAY_FILL(1)) -> look(1) }
	/* a cut */
	:: d_step { !DUE && RUNS && cut == SAVED && ROOM ->
		if
		:: force_set == 0 -> cut = NONE
		:: else -> cutter = (force_set & 1 -> 0 : 1); cut = WRITING;
			if
			:: FAULT == 16 -> write(cutter)
			:: else -> tell(cutter, CUT, life, version, 0, 0)
			fi
		fi }
	/* a new one: a term, and what was committed; then it looks at the replicas */
	:: d_step { !DUE && !up && !finished -> up = 1; learns = 1 }
	:: d_step { !DUE && up && learns && !finished ->
		term++; assert(term < 8); lead_term = term; learns = 0;
		version = committed; applied_round = note; round = lead_term * 16;
		if
		:: FAULT == 4 -> version = (state[0] == SERVES -> iteration[0] : iteration[1])
		:: FAULT == 12 -> round = 16
		:: else
		fi }
	od
}
/* ---- shardd ---- */

#define REFUSED(w) (GEN(ask_list[l], w) && \
	(force[w] != GEN(ask_list[l], w) || hand[w] != ask_rows[2 * l + w] || !hand[w]))
inline take(w) {
	if
	:: GEN(ask_list[l], w) && !REFUSED(w) ->
		assert(!(done & hand[w])); done = done | hand[w]; hand[w] = 0
	:: else
	fi;
	j = 0
}
proctype Shardd(byte l) {
end:	do
	:: d_step { !DUE && ask[l] == ASKED && !finished ->
		if
		:: ask_term[l] != term && FAULT != 5 ->
				skip          /* an old lead hears nothing */
		:: (ask_term[l] == term || FAULT == 5) && ask_round[l] == number &&
				FAULT != 19 -> skip
		:: else ->
			number = ask_round[l];
			refusals = (REFUSED(0) -> 1 : 0) | (REFUSED(1) -> 2 : 0);
			if
			:: refusals == 0 || FAULT == 1 ->
				take(0); take(1); committed++; note = number;
				was_done[committed] = done;
				if :: ask_list[l] == 0 -> note = 0 :: else fi
			:: else
			fi
		fi;
		if
		:: l == life && up -> ask[l] = ANSWERED; answered[l] = refusals
		:: else -> ask[l] = NOTHING; ask_rows[2 * l] = 0; ask_rows[2 * l + 1] = 0;
				ask_list[l] = 0;
			ask_term[l] = 0; ask_round[l] = 0
		fi }
	:: d_step { !DUE && l == 0 && up && cut == SAVING && !finished ->
		new_queue = done; new_version = committed; cut = SAVED }
	od
}

/* ---- replicas ---- */

inline took(r, n, s) {
	held[r] = n; held_rows[r] = s;
	if
	:: up && !learns && (connected & BIT(r)) && (force_set & BIT(r)) && phase == OPEN &&
			round == n ->
		summed = summed | BIT(r)
	:: else
	fi;
	j = 0
}
inline copy(r) {
	iteration[r] = iteration[1 - r]; rows[r] = rows[1 - r]; state[r] = SERVES;
	held[r] = 0; held_rows[r] = 0; ordered[r] = a;
	of_list[r] = 0; of_hosts[r] = 0; given[r] = 0; given_rows[r] = 0; result[r] = 0;
		result_rows[r] = 0;
	if
	:: FAULT == 11 ->
		for (j : 0 .. 1) {
			if
			:: place[j] == 1 - r && staged_at[j] == iteration[r] ->
					extra[r] = extra[r] | staged[j]
			:: else
			fi
		}
	:: else
	fi;
	j = 0
}
/* What a replica has in its memory. */
inline lose(r) {
	iteration[r] = 0; rows[r] = 0; ordered[r] = 0; of_list[r] = 0; of_hosts[r] = 0; held[r] = 0;
	held_rows[r] = 0; given[r] = 0; given_rows[r] = 0; result[r] = 0; result_rows[r] = 0;
		extra[r] = 0;
	j = 0
}
inline carry_out(l, r) {
	orders[2 * l + r]?what, a, b, c, d;
	if
	:: what == SUM && a > ordered[r] && state[r] == SERVES ->
		ordered[r] = a; of_list[r] = c; of_hosts[r] = d; held[r] = 0; held_rows[r] = 0
	:: what == APPLY && state[r] == SERVES && (iteration[r] == b || FAULT == 14) ->
		if
		:: a ->
			assert(held[r] == a || FAULT == 14);
			assert(!(rows[r] & held_rows[r]));
			rows[r] = rows[r] | held_rows[r];
			if :: FAULT != 14 -> held[r] = 0; held_rows[r] = 0 :: else fi
		:: else
		fi;
		iteration[r]++;
		assert(iteration[r] <= committed || FAULT == 21);
		assert(rows[r] == was_done[iteration[r]]);
		for (j : 0 .. 1) {
			if
			:: place[j] == r && staged[j] && staged_at[j] < iteration[r] ->
				staged[j] = 0; staged_gen[j] = 0; staged_at[j] = 0
			:: else
			fi
		}
	/* Of a lead before this one it is not taken: this replica may be in force again. */
	:: what == FILL && (a >= ordered[r] || FAULT == 20) ->
		if
		:: FIT_SOURCE(1 - r, b) -> copy(r);
			if
			:: up && !learns && l == life && (filling & BIT(r)) &&
					(connected & BIT(r)) ->
				if
				:: iteration[r] == version || FAULT == 8 -> replica_in(r)
				:: else -> connected = connected & ~BIT(r)
				fi
			:: else
			fi
		:: else ->
			lose(r); state[r] = EMPTY;
			if :: l == life -> connected = connected & ~BIT(r) :: else fi
		fi
	:: what == CUT && l == life && up && cut == WRITING && cutter == r -> write(r)
	:: else
	fi;
	what = 0; a = 0; b = 0; c = 0; d = 0;
	j = 0
}
#define HERE(w) (place[w] == r && GEN(of_list[r], w))
#define STAGED(w) (!HERE(w) || (staged_gen[w] == GEN(of_list[r], w) && \
	staged_at[w] == iteration[r]))
#define READS (!finished && REACHED(r))

proctype Replica(byte r) {
end:	do
	:: d_step { !DUE && READS && state[r] != DEAD && len(orders[r]) > 0 &&
		(ROOM || !orders[r]?[FILL,_,_,_,_]) -> carry_out(0, r) }
	:: d_step { !DUE && READS && state[r] != DEAD && len(orders[2 + r]) > 0 &&
		(ROOM || !orders[2 + r]?[FILL,_,_,_,_]) -> carry_out(1, r) }
	/* all that is listed of this host is staged */
	:: d_step { !DUE && !finished && state[r] == SERVES && of_list[r] &&
			held[r] != ordered[r] &&
		given[r] != ordered[r] && STAGED(0) && STAGED(1) &&
			(fabric || of_hosts[r] == BIT(r)) ->
		m = extra[r];
		for (j : 0 .. 1) {
			if
			:: HERE(j) || (FAULT == 18 && place[j] == r &&
					staged_at[j] == iteration[r]) ->
				m = m | staged[j];
				if :: LIES -> said[j] = staged[j] :: else fi;
				if :: FAULT == 15 -> staged[j] = 0 :: else fi
			:: else
			fi
		}
		if
		:: of_hosts[r] == BIT(r) -> took(r, ordered[r], m)
		:: else -> given[r] = ordered[r]; given_rows[r] = m; result[r] = 0;
				result_rows[r] = 0
		fi;
		m = 0 }
	:: d_step { !DUE && !finished && state[r] == SERVES && result[r] && held[r] != ordered[r] &&
		(result[r] == ordered[r] || FAULT == 3) ->
		took(r, ordered[r], result_rows[r]);
		result[r] = 0; result_rows[r] = 0; given[r] = 0; given_rows[r] = 0 }
	od
}

proctype Fabric() {
end:	do
	:: d_step { !DUE && fabric && !finished && given[0] && given[1] && !result[0] &&
			!result[1] &&
		(given[0] == given[1] || FAULT == 3) ->
		result[0] = given[0]; result[1] = given[1];
		result_rows[0] = given_rows[0] | given_rows[1]; result_rows[1] = result_rows[0] }
	:: d_step { !DUE && FAULT == 7 && gone && fabric && !finished && given[0] && !result[0] ->
		result[0] = given[0]; result_rows[0] = given_rows[0] }
	:: d_step { !DUE && !fabric && !finished -> fabric = 1 }
	od
}

/* ---- workers ---- */

/* Its generation is another one from here on; what it had goes back with its hello. */
inline anew(w) {
	if :: member[w] && member[w] == gen[w] && takes_part[w] && up -> left[w] = 1 :: else fi;
	takes_part[w] = 0; gen[w] = 0; row[w] = 0; turn[w] = 0; at[w] = HELLO;
	j = 0
}
#define ALIVE (at[w] != GONE && at[w] != FENCED && at[w] != END)
#define ITS (place[w])

proctype Worker(byte w) {
end:	do
	:: d_step { !DUE && at[w] == HELLO && REACHED(ITS) && state[ITS] == SERVES &&
			done != ALL && !finished ->
		newest[w]++; assert(newest[w] < 15); force[w] = newest[w]; gen[w] = newest[w];
			hand[w] = 0;
		at[w] = GET }
	:: d_step { !DUE && (at[w] == HELLO || (at[w] == GET && !takes_part[w])) && done == ALL &&
			REACHED(ITS) ->
		gen[w] = 0; at[w] = END }
	:: d_step { !DUE && at[w] == GET && REACHED(ITS) && !finished && force[w] != gen[w] ->
			anew(w) }
	:: d_step { !DUE && at[w] == GET && REACHED(ITS) && !finished && force[w] == gen[w] &&
			TODO ->
		i = 0; do :: TODO & BIT(i) -> break :: else -> i++ od;
		hand[w] = BIT(i); row[w] = BIT(i); i = 0;
		at[w] = (takes_part[w] -> WORK : JOIN) }
	/* nothing to do: nobody waits for it */
	:: d_step { !DUE && at[w] == GET && REACHED(ITS) && RUNS && ROOM && force[w] == gen[w] &&
			!TODO &&
		takes_part[w] && !(phase == SETTLING && GEN(list, w)) ->
		if :: member[w] == gen[w] -> out(w) :: else fi;
		takes_part[w] = 0 }
	:: d_step { !DUE && at[w] == JOIN && REACHED(ITS) && RUNS && !left[w] && !GEN(list, w) &&
		(force_set & BIT(ITS)) && (connected & BIT(ITS)) &&
		(closed || (phase == GATHER && (!ACTIVE(1 - w) ||
				(LATE -> !KNOWN(1 - w) : !BACKUP)))) ->
		ready[w] = 0; skips[w] = 0; member[w] = gen[w]; pushed[w] = 0; late[w] = 0; takes_part[w] = 1;
		turn[w] = version + closed; at[w] = WORK }
	:: d_step { !DUE && at[w] == JOIN && REACHED(ITS) && force[w] != gen[w] && !finished ->
			anew(w) }
	/* the lead hears that it has computed */
	:: d_step { LATE && !DUE && at[w] == WORK && REACHED(ITS) && RUNS && ROOM &&
			member[w] == gen[w] && !left[w] ->
		ready[w] = 1; at[w] = COMPUTED }
	:: d_step { !DUE && at[w] == (LATE -> COMPUTED : WORK) && state[ITS] == SERVES && !finished &&
			(iteration[ITS] == turn[w] ||
			(LATE && skips[w] == turn[w] && iteration[ITS] + 1 == turn[w])) ->
		staged[w] = row[w]; staged_gen[w] = gen[w]; staged_at[w] = turn[w]; at[w] = TELL }
	:: d_step { LIES && w == 0 && !lied && !DUE && at[w] == WORK && state[ITS] == SERVES &&
			iteration[ITS] == turn[w] && !finished ->
		lied = 1; staged[w] = 0; staged_gen[w] = gen[w]; staged_at[w] = turn[w];
			at[w] = TELL }
	:: d_step { LIES && w == 0 && !lied && !DUE && at[w] == WORK && state[ITS] == SERVES &&
			iteration[ITS] == turn[w] && !finished ->
		lied = 1; at[w] = TELL }
	/* backup workers: its unit was applied without it */
	:: d_step { !DUE && (at[w] == WORK || at[w] == COMPUTED) && state[ITS] == SERVES &&
			iteration[ITS] > turn[w] &&
			!finished ->
		assert(BACKUP || member[w] != gen[w] || left[w]); at[w] = TELL }
	:: d_step { !DUE && at[w] == TELL && REACHED(ITS) && RUNS && ROOM ->
		if
		:: member[w] != gen[w] || left[w] -> anew(w)
		:: else ->
			at[w] = WAIT;
			if
			:: turn[w] == version && !closed ->
				pushed[w] = row[w]; ready[w] = 0; close_unit()
			:: LATE && skips[w] == turn[w] && turn[w] == version + 1 ->
				pushed[w] = row[w]; ready[w] = 0
			:: BACKUP && (turn[w] < version || (turn[w] == version && closed)) ->
					late[w] = row[w]
			:: else -> assert(0)
			fi
		fi }
	/* its replica died, or the way to the lead */
	:: d_step { !DUE && !finished && ALIVE && takes_part[w] && (state[ITS] != SERVES) ->
			anew(w) }
	:: d_step { !DUE && !finished && (at[w] == WAIT || at[w] == WORK || at[w] == COMPUTED) && RUNS && REACHED(ITS) &&
		(member[w] != gen[w] || left[w]) && !(phase == SETTLING &&
			GEN(list, w) == gen[w]) -> anew(w) }
	od
}

/* ---- the supervisor ---- */

#define ENDED(w) (at[w] == END || at[w] == GONE)
inline forget(l) {
	ask[l] = NOTHING; ask_rows[2 * (l)] = 0; ask_rows[2 * (l) + 1] = 0; ask_list[l] = 0;
		ask_term[l] = 0;
	ask_round[l] = 0; answered[l] = 0;
	j = 0
}
/* The rest of a lead that is gone; its settle and its orders may still be read. */
inline lead_dies() {
	up = 0; learns = 0; version = 0; round = 0; applied_round = 0; lead_term = 0;
		phase = GATHER; closed = 0;
	list = 0; force_set = 0; summed = 0; connected = 0; filling = 0; cut = NONE; cutter = 0;
	new_queue = 0; new_rows = 0; new_version = 0;
	for (j : 0 .. 1) {
		member[j] = 0; pushed[j] = 0; late[j] = 0; left[j] = 0; ready[j] = 0; skips[j] = 0
	}
	if :: ask[life] == ANSWERED -> forget(life) :: else fi;
	life = 1 - life; forget(life);
	do :: len(orders[2 * life]) > 0 -> orders[2 * life]?_,_,_,_,_ :: else -> break od;
	do :: len(orders[2 * life + 1]) > 0 -> orders[2 * life + 1]?_,_,_,_,_ :: else -> break od;
	j = 0
}
inline flush(r) {
	do :: len(orders[r]) > 0 -> orders[r]?_,_,_,_,_ :: else -> break od;
	do :: len(orders[2 + r]) > 0 -> orders[2 + r]?_,_,_,_,_ :: else -> break od;
	j = 0
}
inline replica_dies(r) {
	lose(r); state[r] = DEAD; flush(r);
	if :: FAULT != 9 -> connected = connected & ~BIT(r) :: else fi;
	for (j : 0 .. 1) {
		if :: place[j] == r -> staged[j] = 0; staged_gen[j] = 0; staged_at[j] = 0 :: else fi
	};
	j = 0
}
/* Everything begins again from the last cut. */
inline roll_back() {
	lead_dies(); flush(0); flush(1); forget(0); forget(1);
	done = cut_queue; hand[0] = 0; hand[1] = 0; force[0] = 0; force[1] = 0;
	committed = cut_version; note = 0; number = 0; refusals = 0;
	for (k : 0 .. 1) {
		lose(k); staged[k] = 0; staged_gen[k] = 0; staged_at[k] = 0;
		if
		:: k == 0 || !gone ->
				state[k] = SERVES; rows[k] = cut_rows; iteration[k] = cut_version
		:: else -> state[k] = DEAD
		fi;
		if
		:: at[k] != GONE && at[k] != FENCED ->
			takes_part[k] = 0; gen[k] = 0; row[k] = 0; turn[k] = 0; at[k] = HELLO
		:: else
		fi
	};
	j = 0
}
proctype Supervisor() {
	do
	/* a worker's death: the lead, shardd, then its next life */
	:: d_step { !DUE && at[0] == GONE && RUNS && ROOM && !(phase == SETTLING && GEN(list, 0)) ->
		out(0); at[0] = FENCED }
	:: d_step { !DUE && at[1] == GONE && RUNS && ROOM && !(phase == SETTLING && GEN(list, 1)) ->
		out(1); at[1] = FENCED }
	:: d_step { !DUE && at[0] == FENCED && !finished ->
			force[0] = 0; hand[0] = 0; at[0] = HELLO }
	:: d_step { !DUE && at[1] == FENCED && !finished ->
			force[1] = 0; hand[1] = 0; at[1] = HELLO;
		if :: gone -> place[1] = 0 :: else fi }
	/* a replica's: empty, while the other may have what was committed */
	:: d_step { !DUE && state[0] == DEAD && state[1] != DEAD && !finished -> state[0] = EMPTY }
	:: d_step { !DUE && state[1] == DEAD && state[0] != DEAD && !gone && !finished ->
			state[1] = EMPTY }
	:: d_step { !DUE && RUNS && phase != SETTLING && !FITS_LEAD(0) && !FITS_LEAD(1) &&
		(FAULT != 10 || (state[0] == DEAD && state[1] == DEAD)) ->
		assert(!FIT(0) && !FIT(1)); roll_back() }
	/* checkpoints; the last one */
	:: d_step { !DUE && RUNS && cut == NONE && cuts < CUTS && force_set && done != ALL ->
		cuts++; cut = WANTED }
	:: d_step { !DUE && RUNS && cut == NONE && done == ALL && phase == GATHER && force_set &&
		cut_queue != ALL -> cut = WANTED }
	:: d_step { !DUE && RUNS && cut == NONE && cut_queue == ALL && ENDED(0) && ENDED(1) ->
		assert(cut_rows == ALL); finished = 1 }
	:: finished -> break
	od
}

/* ---- what goes wrong ---- */

inline worker_dies(w) {
	if :: member[w] && up -> left[w] = 1 :: else fi;
	takes_part[w] = 0; gen[w] = 0; row[w] = 0; turn[w] = 0; at[w] = GONE;
	j = 0
}
/* What is relayed is broken: host 1's orders and answers, its worker's way to the lead. */
inline fabric_dies() {
	fabric = 0;
	for (j : 0 .. 1) { given[j] = 0; given_rows[j] = 0; result[j] = 0; result_rows[j] = 0 }
	connected = connected & ~BIT(1); flush(1);
	if
	:: FAULT == 6 && up && !learns && (force_set & 2) -> connected = connected | 2;
		if :: phase == OPEN && !(summed & 2) ->
			orders[2 * life + 1]!SUM, round, version, list, force_set
		:: else
		fi
	:: else
	fi;
	if
	:: place[1] == 1 && at[1] != GONE && at[1] != FENCED && at[1] != END && takes_part[1] &&
	   FAULT != 6 -> anew(1)
	:: else
	fi;
	j = 0
}
proctype Crashes() {
end:	do
	:: d_step { MAY_DIE(WORKER_0) && at[0] != GONE && at[0] != FENCED && at[0] != END ->
		died = died | WORKER_0; worker_dies(0) }
	:: d_step { MAY_DIE(WORKER_1) && at[1] != GONE && at[1] != FENCED && at[1] != END ->
		died = died | WORKER_1; worker_dies(1) }
	:: d_step { MAY_DIE(REPLICA_0) && state[0] != DEAD ->
			died = died | REPLICA_0; replica_dies(0) }
	:: d_step { MAY_DIE(REPLICA_1) && state[1] != DEAD ->
			died = died | REPLICA_1; replica_dies(1) }
	:: d_step { MAY_DIE(LEAD) && up -> died = died | LEAD; lead_dies() }
	:: d_step { MAY_DIE(LEAD_AGAIN) && up && (died & LEAD) ->
			died = died | LEAD_AGAIN; lead_dies() }
	/* its requests and answers are lost, not its journal */
	:: d_step { MAY_DIE(SHARDD) -> died = died | SHARDD;
		for (i : 0 .. 1) {
			if :: ask[i] == ANSWERED -> ask[i] = ASKED; answered[i] = 0 :: else fi
		}
		i = 0; if :: cut == SAVED -> cut = SAVING :: else fi }
	:: d_step { MAY_DIE(FABRIC) && fabric && ROOM -> died = died | FABRIC; fabric_dies() }
	:: d_step { MAY_DIE(HOST_1) && ROOM -> died = died | HOST_1; gone = 1; fabric_dies();
		if :: at[1] != END && at[1] != GONE && at[1] != FENCED -> worker_dies(1) :: else fi;
		replica_dies(1) }
	:: d_step { MAY_DIE(PERSON) && force[0] -> died = died | PERSON; force[0] = 0; hand[0] = 0 }
	od
}

init {
	atomic {
		place[1] = 1;
		run Shardd(0); run Shardd(1);
		run Lead(); run Replica(0); run Replica(1); run Fabric(); run Worker(0);
			run Worker(1);
		run Supervisor();
		if :: CRASH -> run Crashes() :: else fi
	}
}
