/*
 * Ranks that sum through the kit (paceline-protocol(7)) as a Spin model: two ranks with parameters of
 * their own and the replica of their host, which sums; the lead and shardd.  N rows, one epoch.
 * Parameters are the audit model's: the set of rows that are in them.
 *
 *     spin -DCRASH=5 -search -O2 ranks.pml      rank 0 and the replica die, at any step
 *
 * tests/model/run has the configurations.  Checked: a rank of a version has the rows that shardd has
 * committed up to it; in the end all rows are in each rank; nobody waits for ever; the job is given
 * up only when nobody has, or can make, what was committed.  Not in it: several hosts, the fabric,
 * checkpoints, orders of a dead lead other than its settle.
 */
#ifndef N
#define N 2
#endif
/* CRASH, a sum: each once, at any step. */
#define RANK_0 1
#define RANK_1 2
#define REPLICA 4
#define LEAD 8
#define SHARDD 16      /* its answer is lost */
#define PERSON 32      /* says `fail` of rank 0 */
#define HUNG 64        /* rank 0 is taken for hung, and lives */
#ifndef CRASH
#define CRASH 0
#endif
#ifndef FAULT
#define FAULT 0
#endif
/* FAULT: what the protocol leaves out or does wrong.
 *  1 a settle of which shardd refuses one rank commits the others
 *  2 a rank steps with the newest sum, not with the one that was committed
 *  3 the settle is not held for a joiner, which takes the state of an older iteration
 *  4 a new sum overwrites the one committed last
 *  5 a settle that is said again is judged anew
 *  6 a joiner is taken as of the lead's iteration
 *  7 a rank steps when the settle is sent
 *  8 a rank that is one behind is not told the step
 *  9 the sum is lost with its replica
 */
#define ALL ((1 << N) - 1)
#define BIT(n) (1 << (n))
#define NO 99

/* ---- shardd ---- */
byte hand[2], done, force[2], newest[2], term = 1, committed, note, was_done[N + 8];
byte number, refusals;
#define TODO (ALL & ~(done | hand[0] | hand[1]))

/* ---- a settle on its way ---- */
mtype = { NOTHING, ASKED, ANSWERED };
mtype ask = NOTHING;
byte ask_term, ask_round, ask_gen[2], ask_rows[2];

/* ---- the lead ---- */
mtype = { GATHER, OPEN, SETTLING };
bool up = 1;
mtype phase = GATHER;
byte lead_term = 1, version, last, round, used, member[2], list[2], pushed[2], rows_of[2];
bool due[2];           /* it was told of a state or a step: the settle is held */
byte giver = NO;

/* ---- the host's memory: two sums; the replica ---- */
bool lives = 1;
byte sum_round, sum_rows, old_round, old_rows, staged_gen[2], staged_at[2], staged[2];
byte given_at = NO, given;

/* ---- ranks ---- */
mtype = { HELLO, JOIN, JOINING, STEP, FILL, GET, STAGE, TELL, WAIT, ANSWER, END, GONE };
mtype at[2] = HELLO;
byte gen[2], ver[2], has[2], row[2];

byte died;
bool finished;
hidden byte j, k;
#define RUNS (up && !finished)
#define FREE (RUNS && phase != SETTLING)
#define SUM(n) (sum_round == (n) -> sum_rows : old_rows)
#define HAS_SUM(n) ((n) && (sum_round == (n) || old_round == (n)))
#define ALIVE(r) (at[r] != GONE)
#define FIT(r) (ALIVE(r) && (ver[r] == committed || (ver[r] + 1 == committed && HAS_SUM(note))))

inline new_round() {
	if
	:: member[0] || member[1] ->
		used++; assert(used < 60); round = used; phase = OPEN;
		list[0] = member[0]; list[1] = member[1]
	:: else -> phase = GATHER; list[0] = 0; list[1] = 0
	fi
}
inline out(r) {
	member[r] = 0; due[r] = 0; pushed[r] = 0; rows_of[r] = 0;
	if :: giver == r -> giver = NO :: else fi;
	if :: phase == OPEN && list[r] -> new_round() :: else fi
}
inline anew(r) { row[r] = 0; at[r] = HELLO }
/* Its step with the sum of a round, which must be there whole. */
inline take_step(r, n) {
	assert(!(has[r] & SUM(n)));
	has[r] = has[r] | SUM(n); ver[r]++;
	assert(has[r] == was_done[ver[r]])
}
inline commit() {
	version++; last = round; phase = GATHER;
	for (k : 0 .. 1) {
		if :: list[k] && at[k] == WAIT && gen[k] == list[k] -> at[k] = ANSWER :: else fi;
		list[k] = 0; pushed[k] = 0; rows_of[k] = 0
	}
	k = 0
}
#define PUSHED (pushed[0] == list[0] && pushed[1] == list[1])
#define HELD (FAULT != 3 && (due[0] || due[1] || giver != NO))

proctype Lead() {
end:	do
	:: d_step { RUNS && phase == GATHER && (member[0] || member[1]) -> new_round() }
	:: d_step { RUNS && phase == OPEN && PUSHED && sum_round == round && !HELD && ask == NOTHING ->
		phase = SETTLING; ask = ASKED; ask_term = lead_term; ask_round = round;
		for (j : 0 .. 1) { ask_gen[j] = list[j]; ask_rows[j] = rows_of[j] }
		j = 0 }
	:: d_step { RUNS && phase == SETTLING && ask == ANSWERED ->
		ask = NOTHING;
		if
		:: refusals == 0 || FAULT == 1 -> commit()
		:: else -> phase = OPEN;
			for (k : 0 .. 1) {
				if :: refusals & BIT(k) -> member[k] = 0; pushed[k] = 0; rows_of[k] = 0;
					if :: giver == k -> giver = NO :: else fi
				:: else fi
			}
			new_round()
		fi }
	od
}

proctype Shardd() {
end:	do
	:: d_step { ask == ASKED && !finished ->
		if
		:: ask_term != term -> ask = NOTHING
		:: else ->
			if
			:: ask_round == number && FAULT != 5 -> skip
			:: else ->
				number = ask_round; refusals = 0;
				for (k : 0 .. 1) {
					if :: ask_gen[k] && ask_gen[k] != force[k] -> refusals = refusals | BIT(k)
					:: else fi
				}
				if
				:: refusals == 0 || FAULT == 1 ->
					for (k : 0 .. 1) {
						if :: ask_gen[k] && !(refusals & BIT(k)) ->
							assert(!(done & ask_rows[k]));
							done = done | ask_rows[k]; hand[k] = hand[k] & ~ask_rows[k]
						:: else fi
					}
					k = 0; committed++; note = number; was_done[committed] = done
				:: else
				fi
			fi;
			ask = ANSWERED
		fi }
	od
}

/* The sum committed last stays; the other one is written. */
#define STAGED(r) (!list[r] || (staged_gen[r] == list[r] && staged_at[r] == version))
proctype Replica() {
end:	do
	:: d_step { lives && RUNS && phase == OPEN && sum_round != round && STAGED(0) && STAGED(1) ->
		if :: sum_round == last && FAULT != 4 -> old_round = sum_round; old_rows = sum_rows
		:: else fi;
		sum_round = round; sum_rows = 0;
		for (j : 0 .. 1) { if :: list[j] -> sum_rows = sum_rows | staged[j] :: else fi }
		j = 0 }
	/* another life of it, to which an agent hands the memory; its members join again */
	:: d_step { !lives && FREE -> out(0); out(1); lives = 1 }
	od
}

#if FAULT == 2
#define OF_NOTE sum_round
#else
#define OF_NOTE note
#endif
proctype Rank(byte r) {
end:	do
	:: d_step { at[r] == HELLO && !finished && done != ALL ->
		newest[r]++; gen[r] = newest[r]; force[r] = gen[r]; hand[r] = 0; at[r] = JOIN }
	:: d_step { at[r] == JOIN && FREE && lives -> out(r); at[r] = JOINING }
	:: d_step { at[r] == JOINING && FREE && lives && (ver[r] == version || FAULT == 6) ->
		member[r] = gen[r]; due[r] = 0; at[r] = GET;
		if :: phase == OPEN -> new_round() :: else fi }
	:: d_step { at[r] == JOINING && FREE && lives && ver[r] + 1 == version && last && FAULT != 8 ->
		due[r] = 1; at[r] = STEP }
	:: d_step { at[r] == JOINING && FREE && lives && ver[r] != version &&
		!(ver[r] + 1 == version && last && FAULT != 8) && FAULT != 6 ->
		if
		:: given_at == version -> due[r] = 1; at[r] = FILL
		:: given_at != version && giver == NO && member[1 - r] -> giver = 1 - r
		:: else
		fi }
	:: d_step { at[r] == STEP && !finished ->
		if :: HAS_SUM(note) -> take_step(r, note) :: else -> ver[r] = NO; has[r] = 0 fi;
		at[r] = JOIN }
	:: d_step { at[r] == FILL && !finished ->
		if :: given_at != NO -> ver[r] = given_at; has[r] = given;
			assert(has[r] == was_done[ver[r]])
		:: else fi;
		at[r] = JOIN }
	/* between its step and the next: it gives its state */
	:: d_step { at[r] == GET && RUNS && lives && giver == r && member[r] == gen[r] ->
		given_at = ver[r]; given = has[r]; giver = NO }
	:: d_step { at[r] == GET && !finished && giver != r && force[r] == gen[r] && done != ALL &&
		(TODO || hand[1 - r]) ->
		row[r] = 0;
		if :: TODO & 1 -> row[r] = 1 :: else -> row[r] = TODO & 2 fi;
		hand[r] = row[r]; at[r] = STAGE }
	:: d_step { at[r] == GET && FREE && giver != r && done == ALL && ver[r] == version ->
		out(r); at[r] = END }
	:: d_step { at[r] == STAGE && lives && !finished ->
		staged[r] = row[r]; staged_gen[r] = gen[r]; staged_at[r] = ver[r]; at[r] = TELL }
	:: d_step { at[r] == TELL && FREE && member[r] == gen[r] && list[r] == gen[r] ->
		pushed[r] = gen[r]; rows_of[r] = row[r]; at[r] = WAIT }
	:: d_step { FAULT == 7 && at[r] == WAIT && phase == SETTLING && sum_round == round ->
		take_step(r, round); at[r] = GET }
	/* a whole sum is the committed one, whether its replica lives or not */
	:: d_step { at[r] == ANSWER && !finished ->
		if
		:: HAS_SUM(OF_NOTE) -> take_step(r, OF_NOTE); row[r] = 0; at[r] = GET
		:: else -> ver[r] = NO; has[r] = 0; anew(r)
		fi }
	/* it is out, or the lead is gone: it comes again with the state that it has */
	:: d_step { (at[r] == GET || at[r] == STAGE || at[r] == TELL || at[r] == WAIT) && FREE &&
		(member[r] != gen[r] || force[r] != gen[r]) ->
		out(r); anew(r) }
	:: d_step { at[r] == JOINING && FREE && force[r] != gen[r] -> anew(r) }
	od
}

#define LACKS(r) (at[r] == JOINING && ver[r] != version && !(ver[r] + 1 == version && last))
#define WHOLE(r) (member[r] || due[r] || (at[r] == END && ver[r] == version) || \
	at[r] == JOIN || at[r] == HELLO || (at[r] == JOINING && !LACKS(r)))
#define ENDED(r) (at[r] == END || at[r] == HELLO || at[r] == GONE)
proctype Supervisor() {
	do
	:: d_step { at[0] == GONE && FREE -> out(0); force[0] = 0; hand[0] = 0; ver[0] = NO; at[0] = HELLO }
	:: d_step { at[1] == GONE && FREE -> out(1); force[1] = 0; hand[1] = 0; ver[1] = NO; at[1] = HELLO }
	:: d_step { !up && !finished ->
		term++; lead_term = term; version = committed; last = note; phase = GATHER; up = 1;
		if :: ask == ANSWERED -> ask = NOTHING :: else fi }
	/* nobody is whole */
	:: d_step { FREE && !WHOLE(0) && !WHOLE(1) && (LACKS(0) || LACKS(1)) ->
		assert(!FIT(0) && !FIT(1)); finished = 1 }
	:: d_step { FREE && done == ALL && ENDED(0) && ENDED(1) && (at[0] == END || at[1] == END) ->
		assert(at[0] != END || has[0] == ALL); assert(at[1] != END || has[1] == ALL);
		finished = 1 }
	:: d_step { FREE && done == ALL && ENDED(0) && ENDED(1) && at[0] != END && at[1] != END ->
		finished = 1 }
	:: finished -> break
	od
}

#define MAY(x) ((CRASH & (x)) && !(died & (x)) && !finished)
inline dies(r) { ver[r] = NO; has[r] = 0; row[r] = 0; at[r] = GONE }
proctype Crashes() {
end:	do
	:: d_step { MAY(RANK_0) && at[0] != END -> died = died | RANK_0; dies(0) }
	:: d_step { MAY(RANK_1) && at[1] != END -> died = died | RANK_1; dies(1) }
	:: d_step { MAY(REPLICA) && lives -> died = died | REPLICA; lives = 0; given_at = NO; given = 0;
		for (j : 0 .. 1) { staged_gen[j] = 0; staged[j] = 0; staged_at[j] = 0 }
		if :: FAULT == 9 -> sum_round = 0; old_round = 0 :: else fi }
	:: d_step { MAY(LEAD) && up -> died = died | LEAD; up = 0; giver = NO;
		for (j : 0 .. 1) { member[j] = 0; list[j] = 0; pushed[j] = 0; rows_of[j] = 0; due[j] = 0;
			if :: at[j] == JOINING -> at[j] = HELLO :: else fi }
		j = 0 }
	:: d_step { MAY(SHARDD) && ask == ANSWERED -> died = died | SHARDD; ask = ASKED }
	:: d_step { MAY(PERSON) && force[0] -> died = died | PERSON; force[0] = 0; hand[0] = 0 }
	:: d_step { MAY(HUNG) && FREE && member[0] -> died = died | HUNG; out(0); force[0] = 0; hand[0] = 0 }
	od
}

init {
	atomic {
		run Lead(); run Shardd(); run Replica(); run Rank(0); run Rank(1); run Supervisor();
		if :: CRASH -> run Crashes() :: else fi
	}
}
