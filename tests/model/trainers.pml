/*
 * A job whose parameters are in its trainers (agent(1), paceline-protocol(7)) as a Spin model: two
 * trainers under BSP, each with its agent; the lead, which has no parameters; shardd; a supervisor.
 * N batches, of all epochs together.  A trainer's parameters are the audit's: how often each batch
 * was trained.
 *
 *     spin -DCRASH=2 -search -O2 trainers.pml           trainer 1 dies, at any step
 *     spin -DFAULT=1 -DCRASH=1 -search -O2 trainers.pml a fault: it must find an error
 *
 * tests/model/run has the configurations.  Checked: in each checkpoint that is complete the trainers
 * have trained exactly what its queue says is done; in the end the last one has every batch once;
 * nobody waits for ever; what the lead counts for a trainer that begins is what that one has.
 *
 * A trainer that has its next rows when it pushes may say behind the push, at once, that it begins
 * with them.  If the push is answered with an action, another size, it has others then.
 *
 * As in batch.pml a client does nothing between a request and its answer, and the step of the daemon
 * that serves it moves the client on.  That somebody has died is seen later, and by the lead and the
 * supervisor in any order.  Not here: rows whose answer is lost, power cuts, the record of an intent
 * (batch.pml has them); ASP and SSP, which are not exact.
 */
#ifndef N
#define N 3      /* batches */
#endif
#ifndef CUTS
#define CUTS 1   /* checkpoints at any time, besides the last one */
#endif
/* CRASH, a sum: each once, at any step. */
#define TRAINER_0 1
#define TRAINER_1 2
#define LEAD 4
#define SHARDD 8
#define SUPERVISOR 16
#ifndef CRASH
#define CRASH 0
#endif
#ifndef ALONE
#define ALONE 0  /* 1: a person may start a trainer that died again, without the others */
#endif
#ifndef FAILS
#define FAILS 0  /* 1: a trainer may say once that it can't save */
#endif
#ifndef ACTS
#define ACTS 0   /* 1: an action, at any time: trainer 0 is to take two batches at a time */
#endif
#ifndef ENDS
#define ENDS 0   /* 1: the last checkpoint, once refused, is not asked for again before all are there */
#endif
#ifndef FAULT
#define FAULT 0
#endif
/* FAULT: what is left out or done wrong.
 *  1 a trainer that goes while shardd saves is not missed in the checkpoint
 *  2 one that goes before it has saved is taken for one that has
 *  3 the checkpoint is complete when the first trainer has saved
 *  4 the cut does not wait for the barrier
 *  5 the barrier lets trainers pass while shardd saves
 *  6 trainers save what they have when they write, not what they had when they were told
 *  7 a cut does not ask whether all trainers are there
 *  8 the lead forgets that a trainer with trained rows went
 *  9 it does not see it when they were on their way to shardd
 * 10 after a rollback trainers have the checkpoint's parameters, the queue stays
 * 11 the queue goes back, trainers that live stay
 * 12 a trainer's death is a worker's: its rows come back, the others go on
 * 13 the lead's death is no reason to go back
 * 14 a settle that is said again is judged anew
 * 15 shardd settles what an older incarnation's lead says
 * 16 trainers that have ended are not told to save
 * 17 a checkpoint that a trainer could not save is complete
 * 18 a cut takes those who have said early what they begin next for being at the barrier
 * 19 what was said early and is here when the push is answered with an action counts
 * 20 what was said early and comes after that answer counts
 * 21 with ENDS, a checkpoint that was refused is asked for again at once, for ever
 */
#define ALL ((1 << N) - 1)
#define BIT(n) (1 << (n))
/* Of each batch in a set: trained once. Two bits for each. */
#define ONCE(s) (((s) & 1) | (((s) & 2) << 1) | (((s) & 4) << 2) | (((s) & 8) << 3))
#define TRAINERS 3 /* both, as bits */

/* ---- shardd: all of it is in its journal ---- */
byte done, hand[2], force[2], newest[2], incarnation = 1;
byte number, refusals;           /* of the last settle, and its answer */
#define TODO (ALL & ~(done | hand[0] | hand[1]))

/* ---- a settle: of the lead, and of one that died ---- */
mtype = { NOTHING, ASKED, ANSWERED };
mtype ask = NOTHING, save = NOTHING;
byte sent[2], sent_gen[2], sent_number;
bool stray;
byte stray_rows[2], stray_gen[2], stray_number, stray_incarnation;

/* ---- the lead ---- */
bool up = 1, begun, settling, lost;
byte lead_incarnation = 1;
bool applied;                    /* something is in the parameters */
mtype = { OUT, JOINED, ACTIVE, ENDED };
mtype state[2] = OUT;
byte member[2];                  /* generations */
bool token[2];                   /* it has said begin */
byte some[2];                    /* with these rows */
bool voids[2];                   /* the answer to its push had an action: what it said is void */
mtype act = NOTHING;             /* ASKED: waits for the answer to a push of trainer 0 */
bool held[2], in_unit[2];
byte pushed[2];
bool trained[2];                 /* in this generation */
mtype = { NONE, WANTED, SAVING, WRITING };
mtype cut = NONE;
byte told, answered, owes;       /* trainers, as bits */
byte told_gen[2];
bool failed;
byte new_queue;
short new_p[2];

/* ---- trainers ---- */
mtype = { OFF, GONE, HELLO, JOIN, JOINING, IN, BEGIN, READY, PUSH, END, OVER };
mtype at[2] = HELLO;
byte gen[2], row[2], size[2] = 1;
byte next[2];                    /* rows of the batch behind the one that is trained */
byte early[2];                   /* those, said behind the push; the lead has not read it yet */
bool none[2], saving[2], closed[2];
short p[2], copy[2];

/* ---- the supervisor, and the last complete checkpoint ---- */
mtype = { LOOKS, STOP, LOAD, START };
mtype step = LOOKS;
byte to_start;                   /* trainers, as bits; 4: the lead */
byte cut_queue, back_queue;
short cut_p[2], back_p[2];
byte cuts;
bool finished, alone;

byte died;                       /* of CRASH */
bool has_failed;
hidden byte i, j;

#define SIZE(s) (((s) & 1) + (((s) >> 1) & 1) + (((s) >> 2) & 1) + (((s) >> 3) & 1))
#define RUNS(w) (at[w] != OFF && at[w] != GONE && at[w] != OVER)
#define ACTIVES ((state[0] == ACTIVE) + (state[1] == ACTIVE))
#define IS_HERE(w) (state[w] == ACTIVE || state[w] == ENDED)
#define HERE (IS_HERE(0) + IS_HERE(1))
#define HAS_BEGUN(w) (state[w] != ACTIVE || token[w])
#define COMPLETE (ACTIVES > 0 && HAS_BEGUN(0) && HAS_BEGUN(1) && HERE == 2)
#define SAMPLES ((state[0] == ACTIVE && some[0]) || (state[1] == ACTIVE && some[1]))
#define CUT_READY (cut == WANTED && (lost || (!settling && \
	(ACTIVES == 0 || ((!begun || FAULT == 18) && COMPLETE) || FAULT == 4))))
#define IS_WHOLE (!lost && (!applied || HERE == 2 || FAULT == 7))
#define MAY_SETTLE (cut != SAVING)
#define IS_OF(w) (RUNS(w) && gen[w] == member[w])
#define HAS_PUSHED(w) (state[w] != ACTIVE || held[w])

/* ---- shardd ---- */
inline judge(w, rows, generation) {
	if
	:: rows == 0
	:: rows != 0 && generation == force[w] && (rows & hand[w]) ->
		hand[w] = hand[w] & ~rows; done = done | rows
	:: else -> refusals = refusals | BIT(w)
	fi
}

proctype Shardd() {
end:	do
	:: d_step { ask == ASKED ->
		if
		:: sent_number == number && FAULT != 14
		:: else ->
			number = sent_number; refusals = 0;
			judge(0, sent[0], sent_gen[0]); judge(1, sent[1], sent_gen[1])
		fi;
		ask = ANSWERED }
	:: d_step { stray ->
		if
		:: (stray_incarnation == incarnation || FAULT == 15) && stray_number != number ->
			number = stray_number; refusals = 0;
			judge(0, stray_rows[0], stray_gen[0]); judge(1, stray_rows[1], stray_gen[1])
		:: else
		fi;
		stray = 0; stray_rows[0] = 0; stray_rows[1] = 0; stray_gen[0] = 0; stray_gen[1] = 0;
		stray_number = 0; stray_incarnation = 0 }
	:: d_step { save == ASKED -> new_queue = done; save = ANSWERED }
	od
}

/* ---- trainers ---- */
inline take(w) {
	i = 0; do :: TODO & BIT(i) -> break :: else -> i++ od;
	hand[w] = hand[w] | BIT(i)
}
proctype Trainer(byte w) {
end:	do
	:: d_step { at[w] == HELLO ->
		hand[w] = 0; newest[w]++; assert(newest[w] < 15);
		gen[w] = newest[w]; force[w] = newest[w]; at[w] = JOIN }
	/* Rows may come while the lead is told that there are none. */
	:: d_step { ((at[w] == IN && SIZE(row[w]) < size[w]) ||
		(at[w] == BEGIN && !some[w] && !row[w])) && TODO && force[w] == gen[w] ->
		take(w); row[w] = row[w] | BIT(i); i = 0 }
	:: d_step { at[w] == READY && !none[w] && !next[w] && TODO && force[w] == gen[w] ->
		take(w); next[w] = BIT(i); i = 0 }
	:: d_step { at[w] == IN && (row[w] || (!TODO && done != ALL)) -> at[w] = BEGIN }
	:: d_step { (at[w] == IN || at[w] == BEGIN) && !row[w] && done == ALL -> at[w] = END }
	:: d_step { at[w] == READY ->
		if
		:: none[w]
		:: else -> p[w] = p[w] + ONCE(row[w])
		fi;
		at[w] = PUSH }
	:: d_step { at[w] == READY && !none[w] && next[w] ->
		p[w] = p[w] + ONCE(row[w]); early[w] = next[w]; at[w] = PUSH }
	/* Without its lead it does not know what was committed. */
	:: d_step { closed[w] && RUNS(w) -> closed[w] = 0; saving[w] = 0;
		if
		:: FAULT == 11 || FAULT == 13 -> row[w] = 0; next[w] = 0; early[w] = 0; at[w] = HELLO
		:: else -> at[w] = GONE
		fi }
	od
}

/* ---- the lead ---- */
inline out(w) {
	if
	:: trained[w] && !finished && FAULT != 8 && IS_HERE(w) -> lost = 1
	:: else
	fi;
	state[w] = OUT; member[w] = 0; token[w] = 0; some[w] = 0; held[w] = 0; pushed[w] = 0;
	voids[w] = 0; owes = owes & ~BIT(w);
	if :: ACTIVES == 0 -> begun = 0 :: else fi
}
/* `save` before the answer that it gets now. */
inline tell(w) {
	if
	:: owes & BIT(w) ->
		owes = owes & ~BIT(w);
		if :: IS_OF(w) -> saving[w] = 1; copy[w] = p[w] :: else fi
	:: else
	fi
}
inline pass() {
	begun = 1;
	for (j : 0 .. 1) {
		if
		:: state[j] == ACTIVE && token[j] ->
			token[j] = 0; tell(j);
			if
			:: IS_OF(j) ->
				assert(at[j] == BEGIN && (!some[j] || some[j] == row[j]));
				none[j] = !some[j]; at[j] = READY
			:: else
			fi
		:: else
		fi
	}
	j = 0
}
inline refuse() { cut = NONE; save = NOTHING; owes = 0 }
inline finish(w) {
	if
	:: in_unit[w] && (refusals & BIT(w)) && sent[w] ->
		if :: IS_OF(w) && at[w] == PUSH && gen[w] == sent_gen[w] -> at[w] = GONE :: else fi;
		if :: member[w] == sent_gen[w] -> out(w) :: else fi
	:: in_unit[w] && !((refusals & BIT(w)) && sent[w]) ->
		if
		:: sent[w] && member[w] == sent_gen[w] -> trained[w] = 1; applied = 1
		:: sent[w] && member[w] != sent_gen[w] ->
			applied = 1;
			if :: FAULT != 9 -> lost = 1 :: else fi
		:: else
		fi;
		if
		:: IS_OF(w) && at[w] == PUSH && gen[w] == sent_gen[w] ->
			/* With early rows it has begun, and waits: the lead knows, or will. */
			at[w] = (early[w] || token[w] -> BEGIN : IN);
			if
			:: none[w] -> none[w] = 0
			:: else -> row[w] = next[w]; next[w] = 0
			fi;
			if
			:: w == 0 && act == ASKED ->
				act = ANSWERED; size[w] = 2; at[w] = IN;
				voids[w] = (!token[w] && FAULT != 20);
				if :: FAULT != 19 -> token[w] = 0; some[w] = 0 :: else fi
			:: else
			fi
		:: else
		fi
	:: else
	fi;
	in_unit[w] = 0; sent[w] = 0; sent_gen[w] = 0
}
inline stop_lead() {
	if
	:: ask == ASKED ->
		stray = 1; stray_number = sent_number; stray_incarnation = lead_incarnation;
		for (j : 0 .. 1) { stray_rows[j] = sent[j]; stray_gen[j] = sent_gen[j] }
	:: else
	fi;
	act = (act == ASKED -> ANSWERED : act);
	up = 0; begun = 0; settling = 0; lost = 0; applied = 0; cut = NONE; ask = NOTHING;
	save = NOTHING; told = 0; answered = 0; owes = 0; failed = 0; new_queue = 0; sent_number = 0;
	told_gen[0] = 0; told_gen[1] = 0;
	lead_incarnation = 0;
	for (j : 0 .. 1) {
		state[j] = OUT; member[j] = 0; token[j] = 0; some[j] = 0; held[j] = 0; pushed[j] = 0;
		voids[j] = 0; trained[j] = 0; in_unit[j] = 0; sent[j] = 0; sent_gen[j] = 0; new_p[j] = 0;
		if
		:: RUNS(j) && at[j] != HELLO && at[j] != JOIN -> closed[j] = 1
		:: else
		fi
	}
	j = 0
}
inline start_lead() {
	up = 1; lead_incarnation = incarnation; applied = (done != 0)
}

/* It is at the barrier, unless it is answered only to hear of a cut: then it says so again. */
inline begin(w, rows) {
	token[w] = 1; some[w] = rows;
	if
	:: owes & BIT(w) -> tell(w); token[w] = 0; some[w] = 0; at[w] = IN
	:: else
	fi
}

/* What one member asks. */
proctype Serves(byte w) {
end:	do
	/* Its connection is closed, or a later generation has come. */
	:: d_step { up && state[w] != OUT && !IS_OF(w) && !(at[w] == OVER) -> out(w) }
	:: d_step { up && at[w] == JOIN && state[w] == OUT && lead_incarnation == incarnation ->
		state[w] = JOINED; member[w] = gen[w]; trained[w] = 0; at[w] = JOINING }
	:: d_step { up && at[w] == JOINING && IS_OF(w) && state[w] == JOINED && !begun ->
		state[w] = ACTIVE; at[w] = IN }
	:: d_step { up && at[w] == BEGIN && IS_OF(w) && state[w] == ACTIVE && !begun && !early[w] &&
		(!token[w] || (row[w] && !some[w])) ->
		voids[w] = 0; begin(w, row[w]) }
	/* What was said behind the push: before its answer, or later. */
	:: d_step { up && at[w] == PUSH && IS_OF(w) && early[w] && (held[w] || in_unit[w]) ->
		token[w] = 1; some[w] = early[w]; early[w] = 0 }
	:: d_step { up && (at[w] == IN || at[w] == BEGIN) && IS_OF(w) && state[w] == ACTIVE &&
		!begun && early[w] ->
		if
		:: voids[w] -> voids[w] = 0
		:: else -> begin(w, early[w])
		fi;
		early[w] = 0 }
	:: d_step { up && at[w] == PUSH && IS_OF(w) && state[w] == ACTIVE && !held[w] && !in_unit[w] ->
		held[w] = 1; some[w] = 0; pushed[w] = (none[w] -> 0 : row[w]) }
	:: d_step { up && at[w] == END && IS_OF(w) && state[w] == ACTIVE ->
		state[w] = ENDED; token[w] = 0; some[w] = 0; tell(w);
		if :: ACTIVES == 0 -> begun = 0 :: else fi }
	:: d_step { up && at[w] == END && state[w] == ENDED && finished -> at[w] = OVER }
	/* It says that it has saved, at once or later. */
	:: d_step { up && saving[w] && RUNS(w) && cut != SAVING ->
		if
		:: cut == WRITING && (told & ~answered & BIT(w)) && told_gen[w] == gen[w] ->
			answered = answered | BIT(w);
			new_p[w] = (FAULT == 6 -> p[w] : copy[w])
		:: else
		fi;
		saving[w] = 0; copy[w] = 0 }
	:: d_step { FAILS && !has_failed && up && saving[w] && RUNS(w) && cut == WRITING &&
		(told & ~answered & BIT(w)) && told_gen[w] == gen[w] ->
		answered = answered | BIT(w); failed = (FAULT != 17);
		saving[w] = 0; copy[w] = 0; has_failed = 1 }
	/* It went before that. */
	:: d_step { up && cut == WRITING && (told & ~answered & BIT(w)) &&
		(!IS_HERE(w) || member[w] != told_gen[w]) ->
		answered = answered | BIT(w);
		if :: FAULT != 2 -> failed = 1 :: else fi }
	od
}

proctype Lead() {
end:	do
	:: d_step { up && CUT_READY ->
		if
		:: IS_WHOLE -> cut = SAVING; save = ASKED
		:: else -> refuse()
		fi }
	:: d_step { up && cut == SAVING && save == ANSWERED ->
		save = NOTHING;
		if
		:: !IS_WHOLE && FAULT != 1 -> refuse()
		:: else ->
			cut = WRITING; told = 0; answered = 0; failed = 0; new_p[0] = 0; new_p[1] = 0;
			for (i : 0 .. 1) {
				if
				:: IS_HERE(i) && !(FAULT == 16 && state[i] == ENDED) -> told = told | BIT(i); told_gen[i] = member[i]
				:: else
				fi
			}
			owes = told;
			if :: SAMPLES && COMPLETE && !begun -> pass() :: else fi;
			for (i : 0 .. 1) {
				if
				:: (owes & BIT(i)) && token[i] ->
					token[i] = 0; some[i] = 0; tell(i);
					if :: IS_OF(i) && at[i] == BEGIN -> at[i] = IN :: else fi
				:: (owes & BIT(i)) && state[i] == ENDED -> tell(i)
				:: else
				fi
			}
			i = 0
		fi }
	:: d_step { up && cut == WRITING && (answered == told || (FAULT == 3 && answered)) ->
		if
		:: !failed ->            /* the MANIFEST */
			assert(new_p[0] + new_p[1] == ONCE(new_queue));
			cut_queue = new_queue; cut_p[0] = new_p[0]; cut_p[1] = new_p[1]
		:: else
		fi;
		cut = NONE; told = 0; answered = 0; owes = 0; failed = 0; new_queue = 0; told_gen[0] = 0; told_gen[1] = 0;
		new_p[0] = 0; new_p[1] = 0 }
	:: d_step { up && !begun && COMPLETE && SAMPLES && !settling && !CUT_READY &&
		(cut != SAVING || FAULT == 5) -> pass() }
	:: d_step { up && begun && !settling && ACTIVES > 0 && HAS_PUSHED(0) && HAS_PUSHED(1) &&
		cut != SAVING ->
		settling = 1; begun = 0;
		for (i : 0 .. 1) {
			if
			:: held[i] ->
				in_unit[i] = 1; sent[i] = pushed[i]; sent_gen[i] = member[i];
				held[i] = 0; pushed[i] = 0
			:: else
			fi
		}
		i = 0; sent_number = !number;
		ask = (sent[0] || sent[1] -> ASKED : ANSWERED);
		if :: !sent[0] && !sent[1] -> refusals = 0 :: else fi }
	:: d_step { up && settling && ask == ANSWERED ->
		settling = 0; ask = NOTHING; finish(0); finish(1); sent_number = 0 }
	od
}

/* ---- the supervisor ---- */
inline go_back() {
	step = STOP; to_start = 7;
	back_queue = cut_queue; back_p[0] = cut_p[0]; back_p[1] = cut_p[1]
}
#define CLEAN(w) closed[w] = 0; saving[w] = 0; copy[w] = 0; row[w] = 0; none[w] = 0; \
	gen[w] = 0; next[w] = 0; early[w] = 0; size[w] = 1

proctype Supervisor() {
	do
	:: d_step { step == LOOKS && FAULT != 12 && (at[0] == GONE || at[1] == GONE) -> go_back() }
	:: d_step { step == LOOKS && FAULT == 12 && at[0] == GONE -> CLEAN(0); p[0] = cut_p[0]; at[0] = HELLO }
	:: d_step { step == LOOKS && FAULT == 12 && at[1] == GONE -> CLEAN(1); p[1] = cut_p[1]; at[1] = HELLO }
	:: d_step { step == LOOKS && !up && FAULT != 13 -> go_back() }
	:: d_step { step == LOOKS && !up && FAULT == 13 -> start_lead() }
	/* Checkpoints are refused from now on. */
	:: d_step { step == LOOKS && up && lost && FAULT != 12 -> go_back() }
	:: d_step { ALONE && !alone && step == LOOKS && up && at[0] == GONE ->
		CLEAN(0); p[0] = cut_p[0]; at[0] = HELLO; alone = 1 }
	:: d_step { ALONE && !alone && step == LOOKS && up && at[1] == GONE ->
		CLEAN(1); p[1] = cut_p[1]; at[1] = HELLO; alone = 1 }

	:: d_step { step == STOP && up -> stop_lead() }
	:: d_step { step == STOP && at[0] != OFF && (FAULT != 11 || at[0] == GONE) -> CLEAN(0); p[0] = 0; at[0] = OFF }
	:: d_step { step == STOP && at[1] != OFF && (FAULT != 11 || at[1] == GONE) -> CLEAN(1); p[1] = 0; at[1] = OFF }
	:: d_step { step == STOP && !up && ((at[0] == OFF && at[1] == OFF) || FAULT == 11) -> step = LOAD }
	:: d_step { step == LOAD ->
		incarnation++; assert(incarnation < 15);
		if
		:: FAULT == 10
		:: else -> done = back_queue
		fi;
		hand[0] = 0; hand[1] = 0; force[0] = 0; force[1] = 0; number = 0; refusals = 0;
		step = START }
	:: d_step { step == START && (to_start & 4) && !up -> start_lead(); to_start = to_start & ~4 }
	:: d_step { step == START && (to_start & 1) && !(to_start & 4) ->
		if :: at[0] == OFF -> p[0] = back_p[0]; at[0] = HELLO :: else fi; to_start = to_start & ~1 }
	:: d_step { step == START && (to_start & 2) && !(to_start & 4) ->
		if :: at[1] == OFF -> p[1] = back_p[1]; at[1] = HELLO :: else fi; to_start = to_start & ~2 }
	:: d_step { step == START && !to_start ->
		step = LOOKS; back_queue = 0; back_p[0] = 0; back_p[1] = 0 }

	:: d_step { ACTS && act == NOTHING && up && state[0] == ACTIVE && !finished -> act = ASKED }
	:: d_step { up && step == LOOKS && cut == NONE && cuts < CUTS && !finished -> cut = WANTED; cuts++ }
	:: d_step { up && step == LOOKS && cut == NONE && done == ALL && cut_queue != ALL && !finished &&
		(!ENDS || FAULT == 21 || IS_WHOLE) -> cut = WANTED }
	:: d_step { up && step == LOOKS && cut == NONE && cut_queue == ALL && done == ALL && !finished &&
		state[0] == ENDED && state[1] == ENDED && IS_OF(0) && IS_OF(1) ->
		finished = 1; assert(ALONE || p[0] + p[1] == ONCE(ALL)) }
	:: finished && at[0] == OVER && at[1] == OVER -> break
	od;
	assert(cut_queue == ALL && cut_p[0] + cut_p[1] == ONCE(ALL))
}

/* ---- crashes ---- */
#define WILL_DIE(who) ((CRASH & (who)) && !(died & (who)) && !finished)

proctype Crashes() {
end:	do
	:: d_step { WILL_DIE(TRAINER_0) && RUNS(0) -> died = died | TRAINER_0; at[0] = GONE;
		closed[0] = 0; saving[0] = 0; copy[0] = 0 }
	:: d_step { WILL_DIE(TRAINER_1) && RUNS(1) -> died = died | TRAINER_1; at[1] = GONE;
		closed[1] = 0; saving[1] = 0; copy[1] = 0 }
	:: d_step { WILL_DIE(LEAD) && up -> died = died | LEAD; stop_lead() }
	/* Its answers are lost, what is in the journal stays: it is asked again. */
	:: d_step { WILL_DIE(SHARDD) && ask == ANSWERED && (sent[0] || sent[1]) ->
		died = died | SHARDD; ask = ASKED }
	:: d_step { WILL_DIE(SHARDD) && save == ANSWERED -> died = died | SHARDD; save = ASKED }
	/* The next one finds the intent of a rollback, and does all of it again. */
	:: d_step { WILL_DIE(SUPERVISOR) && step != LOOKS -> died = died | SUPERVISOR;
		step = STOP; to_start = 7 }
	od
}

init { atomic {
	for (i : 0 .. 1) { run Trainer(i); run Serves(i) }
	i = 0;
	run Shardd(); run Lead(); run Supervisor(); run Crashes()
} }
