/*
 * Ranks whose gradients the kit sums (TRAINER with SYNC=allreduce; paceline-protocol(7)) as a Spin
 * model: R ranks, each an agent and a trainer with parameters of its own; on each host a replica
 * that only sums; the lead; shardd; the fabric between two hosts; a supervisor.  N rows, one epoch.
 * Parameters are the audit model's: the set of rows that are in them, and whose first parameters
 * they were made of.
 *
 *     spin -DCRASH=5 -search -O2 ranks.pml              rank 0 and its replica die, at any step
 *     spin -DFAULT=3 -DCRASH=1 -search -O2 ranks.pml    a fault: it must find an error
 *
 * tests/model/run has the configurations.  Checked: each row is committed once; a rank of a version
 * has the rows that shardd has committed up to it, so that all ranks are equal; a sum does not change
 * while a trainer reads it; in the end each rank has all rows; nobody waits, or joins, for ever; the
 * job is given up only when nobody lives who has, or can make, what was committed, and never unless a
 * rank has died, or has gone, or was declared dead, as the only one that had it.
 *
 * A request and what the lead makes of it is one step here, the answer another one.  What may be on
 * its way while somebody dies: answers of the lead, its orders, a settle, a state.  Deadlines: a
 * settle's hold may end at any time (LATE); a job is given up only once no host is cut off (CUT_OFF:
 * it is back in time, or with AWAY it is not, and comes back with what it had) and all agents have
 * done what they can do without their trainers.  Not in it: parts of a gradient that come early,
 * gradients that can't be summed, who gives if several can.
 *
 * With SAVES there are checkpoints: the newest one on the disk, what one rank of each host holds of
 * it in memory, and the one that is being made.  A job that is given up then goes back to it, in one
 * step (batch.pml has the steps of a rollback), and ends with one that has all rows.  Checked as
 * well: a checkpoint has the rows that its queue says are done, and so has whoever begins with it,
 * from the disk or from memory; nobody asks for one that was pruned.
 */
#ifndef N
#define N 2      /* rows */
#endif
#ifndef R
#define R 2      /* ranks */
#endif
#ifndef HOSTS
#define HOSTS 1  /* 2: rank 1 is on the second one */
#endif
#ifndef FRESH
#define FRESH 0  /* 1: nobody is a member yet, and all have parameters of their own */
#endif
#ifndef SLOW
#define SLOW 0   /* 1: ranks may see that a replica is gone, and is there again, before the lead does */
#endif
#ifndef LEAVES
#define LEAVES 0 /* ranks that may leave, as bits */
#endif
#ifndef SAVES
#define SAVES 0  /* checkpoints at any time, besides the last one */
#endif
/* CRASH, a sum: each once, at any step. */
#define RANK_0 1
#define RANK_1 2
#define REPLICA_0 4
#define LEAD 8
#define SHARDD 16      /* its answer is lost: it is asked again */
#define PERSON 32      /* says `fail` of rank 0 to shardd */
#define FENCE 64       /* the lead is told that rank 0 is out, and it lives */
#define LATE 128       /* a hold ends before the state is there */
#define REPLICA_1 256
#define FABRIC 512
#define CUT_OFF 1024   /* host 1, for a while */
#define AWAY 2048      /* the job goes back without it (too many states to search all) */
#define AGAIN 4096     /* after the first rollback each once more */
#ifndef CRASH
#define CRASH 0
#endif
#ifndef FAULT
#define FAULT 0
#endif
/* FAULT: what is left out or done wrong, and where.
 *  1 a settle of which shardd refuses one rank commits the others       units_is_whole()
 *  2 a rank's push is its own after it has joined again: it keeps its rows   agent_sums_joined(), none
 *  3 no settle waits for a state on its way                             states_hold()
 *  4 a new sum is written over the one committed last                   ps_room_begin()
 *  5 a settle that is said again is judged anew                         shardd, number=
 *  6 a joiner is taken as of the lead's iteration                       states_let_in()
 *  7 a rank steps when its sum is whole, before the commit              agent_sums_pushed()
 *  8 one that is a step behind is not told the round                    states_has_step()
 *  9 what an agent has mapped is not taken over by a new replica        room_take()
 * 10 the lead is past a sum, and it is written over all the same        sum() in round.c
 * 11 a state of iteration 0 of an earlier beginning counts             gate_state()
 * 12 who is between two batches does not join                           agent_sums_out()
 * 13 the last one that has the state may leave                          states_stays()
 * 14 who was put out, and does not know it, is not counted             gate_lost(), unaware
 * 15 a late order of a lead that is dead is carried out                 sum() in round.c, stale
 * 16 shardd takes a settle of an old term                               shardd, term=
 * 17 whatever sum is there is taken for the round that was named        part_client_sum_at()
 * 18 the lead settles when the first replica has the sum                is_summed()
 * 19 the fabric adds what has different rounds                          sum-open, round=
 * 20 a push of an earlier life is added                                 stage_find_for(), generation
 * 21 a member that goes stays in the open sum                           members_same()
 * 22 a giver that goes is waited for                                    states_out()
 * 23 who could not get a sum, or a state, still says its version        sums_late_step(), is_whole
 * 24 a new lead asks the ranks what was committed last                  gate_term()
 * 25 who is in the middle of a batch is waited for to give              agent_sums_give()
 * 26 who was put out may end                                           gate_end()
 * 27 with SAVES, who starts late asks for the checkpoint that all went back to, and it was
 *    pruned                                                            saved_to_restore()
 * 28 with SAVES, what is in memory is loaded whichever checkpoint it is of    find_held()
 * 29 with SAVES, the answers to pushes do not wait until shardd has saved     states_keeps()
 * 30 with SAVES, who was to save may go, and the checkpoint is complete   lead_trainers_look()
 * 31 a new lead does not know which beginning the first commit is of     read_commit()
 */
#define ALL ((1 << N) - 1)
#define BIT(n) (1 << (n))
#define NO 99
#if HOSTS == 1
#define H(r) 0
#else
#define H(r) ((r) == 1)
#endif
/* What r has is that of a version. */
#define IS(r, v) (has[r] == (was[v] | (origin << 4)))
#define GO (!finished && !look)
#define REACH(h) !(cut && (h) == 1)
bool finished, look, cut;
bool unlucky;          /* nobody else had the state of one that died, or went */
byte died, died_too;   /* of CRASH: the low bits, and the others */
byte lives[R];

/* ---- shardd ---- */
byte hand[R], force[R], newest[R], done, committed, note, note_any, term = 1;
byte number, refusals, was[16], origin, incarnation;
byte note_birth;       /* of which beginning the members of the first iteration were */
#if R == 2
#define TODO (ALL & ~(done | hand[0] | hand[1]))
#else
#define TODO (ALL & ~(done | hand[0] | hand[1] | hand[2]))
#endif

/* ---- a settle on its way ---- */
mtype = { NOTHING, ASKED, ANSWERED };
mtype ask = NOTHING;
byte ask_term, ask_round, ask_list, ask_gen[R], ask_rows[R];

/* ---- the lead ---- */
#define OUT 0
#define JOINING 1
#define ACTIVE 2
#define ENDED 3
bool up = 1, settling, open, unheld, broke;
byte lead_term = 1, applied, last, last_any, round, listed, in_sum, pushed, expect = R, on_hosts;
byte ls[R], lg[R], lv[R], lrow[R], fenced[R], tried[R];
bool due[R], token[R], unaware[R];
byte births;           /* of all leads: their numbers differ */
byte birth;            /* what this one takes for the last beginning */
byte giver = NO, give_attempt, give_at, attempts;
byte given, given_at, given_host;
/* of each replica: */
#define GONE 0
#define HERE 1
#define IN 2
byte rs[2], at_version[2], at_round[2], summed[2];
bool linked[2];        /* the connection to it is up */
/* orders on their way, of this lead and of one that is dead */
bool o_sum[2], o_apply[2], late_sum[2];
byte late_apply[2], late_round, late_at, late_hosts, late_gen[R];

/* ---- replicas ---- */
#define NONE 0
#define ADDING 1
#define ABROAD 2
#define HELD 3
#define COMES 4        /* the other host may have it already */
bool rup[2] = 1, serves[2], taken[2], alone[2], fabric = 1;
byte rstate[2], rnumber[2], rat[2], rapplied[2], flip[2], rgen[2 * R];
byte staged_gen[R], staged_at[R], staged[R];
byte state_attempt[2], state_at[2], state_of[2];
/* Sums: of each host two in the memory of now, two in that of a replica that died. */
#define SLOT(h, old, n) ((h) * 4 + (old) * 2 + (n))
#define WHOLE 1
#define COMMITTED 2
byte s_state[8], s_at[8], s_round[8], s_rows[8];

/* ---- ranks: the trainer ---- */
#define NEXT 0         /* it waits for a batch, or to load a state */
#define COMPUTES 1
#define SUM 2          /* its gradient is there */
#define STEPS 3        /* with a sum that it reads; then whatever it does before its next word */
#define LOADS 4
#define DEAD 5
#define LEFT 6
byte t[R], has[R], reads[R], reads_round[R], vain[R];
/* ---- and its agent ---- */
#define LOST 0         /* no connection to shardd and the lead */
#define APART 1        /* no member */
#define JOINS 2
#define MEMBER 3
#define STAGED 4
#define PUSHED 5
#define ENDING 6
#define GIVING 7       /* and then it says again that it ends, or leaves */
byte a[R], gen[R], ver[R], row[R], step[R], step_any[R], gives[R];
bool whole[R];        /* the trainer has the state of a version */
bool room[R];         /* the replica's sums are mapped */
bool old[R];          /* and those of one that died */
bool up_to[R];        /* the connection to the lead is up */
byte born[R];         /* of which beginning its state of iteration 0 is */
#define no_answer 0
#define fenced_ 1
#define joined_ 2
#define fill_ 3
#define step_ 4
#define pushed_ 5
/* What the lead has answered: of which iteration, whether any row was in it, which round or attempt. */
byte answer[R], answer_at[R], answer_any[R], answer_round[R], answer_birth[R];
hidden byte i, j, k, f, x, b, c;

/* ---- checkpoints ---- */
#define WANTED 1
#define SAVING 2       /* shardd is asked; answers to pushes wait (kept) */
#define SAVED 3
#define WRITING 4      /* ranks are told */
byte save, saves, kept, n_at, n_of, n_queue, who, saver;
bool n_is;             /* it is on the disk, and lacks its MANIFEST */
byte d_at, d_of, d_queue; /* the newest one; d_at 0: there is none */
byte back;             /* 1: all have gone back to this one; 2: to one that was pruned since */
byte m_at[2], m_of[2]; /* on each host, in memory */
/* Of each rank: it is to save for this iteration, + 1 (on_disk: to the disk, too); what it has saved, and
 * has not told yet; what of that it may hold in memory: when it hears that it is a checkpoint. */
byte to_save[R], w_at[R], w_of[R], inc[R];
bool on_disk[R], tells[R], holds[R];

/* ==== the lead's rules ==== */
#define WAITS(r) (ls[r] == JOINING && token[r] && rs[H(r)] == IN)
#define HAS_STEP(r) (FAULT != 8 && last && lv[r] + 1 == applied)
#define LACKS(r) (WAITS(r) && lv[r] != applied)
#define HAS(r) (ls[r] == ACTIVE || due[r] || (ls[r] == ENDED && lv[r] == applied) || \
	(WAITS(r) && (lv[r] == applied || HAS_STEP(r))))
#if R == 2
#define ANY(p) (p(0) || p(1))
#define BITS(p) (p(0) | (p(1) << 1))
#else
#define ANY(p) (p(0) || p(1) || p(2))
#define BITS(p) (p(0) | (p(1) << 1) | (p(2) << 2))
#endif
#define IS_ACTIVE(r) (ls[r] == ACTIVE)
#define IS_DUE(r) (due[r] != 0)
#define IS_JOINING(r) (ls[r] == JOINING)
#define IS_WAITING(r) WAITS(r)
#define HOLDS (FAULT != 3 && !unheld && (give_attempt || ANY(IS_DUE)))
#define HOSTS_IN ((rs[0] == IN) | ((rs[1] == IN) << 1))

/* An answer that was kept. */
inline pushed_is(r) {
	kept = kept & ~BIT(r);
	if
	:: a[r] == PUSHED && up_to[r] && gen[r] == lg[r] && answer[r] == no_answer ->
		answer[r] = pushed_; answer_at[r] = applied; answer_any[r] = last_any
	:: else
	fi
}
inline out(r) {
	if
	:: lg[r] == gen[r] && up_to[r] && (((pushed & BIT(r)) && !(settling && (ask_list & BIT(r)))) ||
		(token[r] && ls[r] != OUT)) -> answer[r] = fenced_
	:: else
	fi;
	if :: SAVES && (kept & BIT(r)) -> pushed_is(r) :: else fi;
	if
	:: SAVES && (who & BIT(r)) -> who = who & ~BIT(r); look = 1;
		if
		:: saver != r + 1
		:: saver == r + 1 && FAULT == 30 -> n_is = 1
		:: else -> n_is = 0; saver = NO
		fi
	:: else
	fi;
	ls[r] = OUT; due[r] = 0; token[r] = 0; lv[r] = NO;
	listed = listed & ~BIT(r);
	if :: settling && (ask_list & BIT(r)) :: else -> pushed = pushed & ~BIT(r); lrow[r] = 0 fi;
	if :: giver == r && FAULT != 22 -> giver = NO; give_attempt = 0 :: else fi
}
/* The answer that r gets now also says that it is to give. */
inline tell(r) {
	if
	:: giver == r && !give_attempt ->
		if
		:: ANY(LACKS) -> attempts++; assert(attempts < 30); give_attempt = attempts;
			give_at = applied; gives[r] = attempts
		:: else -> giver = NO
		fi
	:: else
	fi
}
inline bring(r) {
	if
	:: LACKS(r) && HAS_STEP(r) ->
		answer[r] = step_; answer_at[r] = applied; answer_round[r] = last; answer_any[r] = last_any;
		token[r] = 0; due[r] = 1
	:: LACKS(r) && !HAS_STEP(r) && given && given_at == applied && tried[r] != given ->
		answer[r] = fill_; answer_at[r] = applied; answer_round[r] = given; answer_any[r] = given_host;
		answer_birth[r] = (applied == 0 -> birth : 0);
		token[r] = 0; due[r] = 1; tried[r] = given
	:: LACKS(r) && !HAS_STEP(r) && !(given && given_at == applied && tried[r] != given) && giver == NO ->
		f = NO;
		for (k : 0 .. R - 1) { if :: f == NO && ls[k] == ACTIVE -> f = k :: else fi }
		for (k : 0 .. R - 1) {
			if :: f == NO && ls[k] == ENDED && token[k] && lv[k] == applied -> f = k :: else fi }
		giver = f;
		if
		:: f != NO && ls[f] == ENDED -> token[f] = 0; tell(f)
		:: else
		fi;
		f = 0; k = 0
	:: else
	fi
}
inline let_in() {
	i = 0;
	for (j : 0 .. R - 1) { i = i + WAITS(j) }
	if
	:: !ANY(IS_ACTIVE) && i < expect -> b = 0
	:: !ANY(IS_ACTIVE) && i >= expect -> b = 1; expect = 0
	:: else -> b = 1
	fi;
	if
	:: b ->
		if
		:: applied == 0 && !ANY(HAS) && i ->
			f = NO;
			for (j : 0 .. R - 1) {
				if :: f == NO && WAITS(j) -> f = j :: else fi;
				if :: FAULT != 11 -> lv[j] = NO :: else fi
			}
			births++; birth = births; lv[f] = 0; origin = has[f] >> 4; f = 0;
			if :: FAULT != 11 -> given = 0 :: else fi
		:: else
		fi;
		for (j : 0 .. R - 1) {
			if
			:: WAITS(j) && (lv[j] == applied || FAULT == 6) ->
				ls[j] = ACTIVE; token[j] = 0; answer[j] = joined_; answer_at[j] = applied;
				answer_birth[j] = (applied == 0 -> birth : 0)
			:: else
			fi
		}
		for (j : 0 .. R - 1) { bring(j) }
		for (j : 0 .. R - 1) {
			if :: ls[j] == ACTIVE && answer[j] == joined_ -> tell(j) :: else fi }
	:: else
	fi;
	i = 0; j = 0; b = 0
}
/* Later than all that is known anywhere: the lowest such number, or there would be more states. */
inline later(n) { if :: n > x -> x = n :: else fi }
inline new_round() {
	x = last; later(note); later(round); later(ask_round); later(late_round); later(number);
	for (j : 0 .. 1) { later(rnumber[j]); later(at_round[j]); later(late_apply[j]) }
	for (j : 0 .. 7) { later(s_round[j]) }
	for (j : 0 .. R - 1) { later(step[j]); later(answer_round[j]); later(reads_round[j]) }
	round = x + 1; assert(round < 40); broke = 0; x = 0; j = 0
}
inline keep_sum() {
	if
	:: !ANY(IS_ACTIVE) || !HOSTS_IN -> open = 0; listed = 0; in_sum = 0; on_hosts = 0
	:: else ->
		if
		:: !open || (listed != in_sum && FAULT != 21) || listed != BITS(IS_ACTIVE) || on_hosts != HOSTS_IN ->
			new_round(); open = 1; listed = BITS(IS_ACTIVE); in_sum = listed;
			on_hosts = HOSTS_IN; summed[0] = 0; summed[1] = 0;
			o_sum[0] = (rs[0] == IN); o_sum[1] = (rs[1] == IN)
		:: else
		fi
	fi
}
#define SUMMED(h) (rs[h] != IN || summed[h] == round)
#if FAULT == 18
#define ALL_SUMMED ((rs[0] == IN && summed[0] == round) || (rs[1] == IN && summed[1] == round))
#else
#define ALL_SUMMED (SUMMED(0) && SUMMED(1))
#endif
inline place(h) {
	if
	:: rs[h] == HERE ->
		rs[h] = IN;
		if :: last && at_version[h] + 1 == applied && at_round[h] == last -> o_apply[h] = 1 :: else fi;
		at_version[h] = 0; at_round[h] = 0
	:: else
	fi
}
inline unask() {
	ask = NOTHING; ask_term = 0; ask_round = 0; ask_list = 0;
	for (k : 0 .. R - 1) { ask_gen[k] = 0; ask_rows[k] = 0 }
	k = 0
}
inline commit() {
	applied++; last = ask_round; last_any = 0; open = 0; listed = 0; in_sum = 0; on_hosts = 0; unheld = 0;
	settling = 0;
	o_apply[0] = (rs[0] == IN); o_apply[1] = (rs[1] == IN);
	for (j : 0 .. R - 1) {
		if
		:: ask_list & BIT(j) ->
			if :: ask_rows[j] -> last_any = 1 :: else fi;
			pushed = pushed & ~BIT(j); lrow[j] = 0;
			if
			:: a[j] == PUSHED && up_to[j] && gen[j] == ask_gen[j] ->
				if
				:: SAVES && save == WANTED && ls[j] == ACTIVE && lg[j] == gen[j] &&
				   FAULT != 29 -> kept = kept | BIT(j)
				:: else -> answer[j] = pushed_; answer_at[j] = applied; b = b | BIT(j)
				fi
			:: else
			fi
		:: else
		fi
	}
	for (j : 0 .. R - 1) {
		if
		:: b & BIT(j) -> answer_any[j] = last_any;
			if :: ls[j] == ACTIVE -> tell(j) :: else fi
		:: else
		fi
	}
	b = 0; j = 0; look = 1
}
inline put_out(r) { c = HAS(r) && FAULT != 14; out(r); unaware[r] = c; c = 0 }
#define IS_UNAWARE(r) (unaware[r] && up_to[r] && lg[r] == gen[r])
inline replica_out(h) {
	rs[h] = GONE; summed[h] = 0; on_hosts = on_hosts & ~BIT(h); o_sum[h] = 0; o_apply[h] = 0;
	if :: given_host == h -> given = 0 :: else fi;
	for (k : 0 .. R - 1) {
		if :: H(k) == h && (ls[k] == ACTIVE || ls[k] == JOINING) -> put_out(k) :: else fi }
	k = 0; look = 1
}

#define MAY_SAVE(r) ((kept & BIT(r)) || (ls[r] == ENDED && lv[r] == applied) || \
	(FAULT == 29 && ls[r] == ACTIVE))
inline may_cut() {
	if
	:: SAVES && save == WANTED && applied && ANY(MAY_SAVE) -> save = SAVING
	:: SAVES && save == WANTED && !(applied && ANY(MAY_SAVE)) && !ANY(IS_ACTIVE) && !ANY(IS_JOINING) &&
	   !ANY(IS_UNAWARE) -> save = 0
	:: else
	fi
}
/* One saves; one on each other host only holds its state in memory. */
inline tell_save(r, disk) {
	who = who | BIT(r);
	if :: a[r] >= MEMBER && up_to[r] && lg[r] == gen[r] -> to_save[r] = n_at + 1; on_disk[r] = disk :: else fi;
	if :: ls[r] == ENDED -> token[r] = 0 :: else fi
}
inline no_cut() {
	save = 0; saver = 0; who = 0; n_at = 0; n_of = 0; n_queue = 0; n_is = 0
}

proctype Lead() {
end:	do
	:: d_step { SAVES && GO && up && save == SAVED ->
		save = WRITING; n_at = applied; f = NO;
		for (j : 0 .. R - 1) { if :: f == NO && MAY_SAVE(j) -> f = j; tell_save(j, 1) :: else fi }
		for (j : 0 .. R - 1) {
			if :: f != NO && H(j) != H(f) && (kept & BIT(j)) -> tell_save(j, 0) :: else fi }
		saver = (f == NO -> NO : f + 1);
		for (j : 0 .. R - 1) {
			if
			:: kept & BIT(j) ->
				pushed_is(j);
				if :: ls[j] == ACTIVE -> tell(j) :: else fi
			:: else
			fi
		}
		f = 0; j = 0; look = 1 }
	:: d_step { SAVES && GO && up && save == WRITING && !who ->
		if
		:: n_is ->
			assert(n_of == (n_queue | (origin << 4)));
			d_at = n_at; d_of = n_of; d_queue = n_queue;
			back = (back -> 2 : 0)
		:: else
		fi;
		for (j : 0 .. R - 1) {
			if
			:: w_at[j] && !tells[j] && !to_save[j] ->
				holds[j] = n_is && w_at[j] == n_at;
				if :: !holds[j] -> w_at[j] = 0; w_of[j] = 0 :: else fi
			:: else
			fi
		}
		j = 0; no_cut(); look = 1 }
	:: d_step { look && up && !finished ->
		look = 0;
		if
		:: settling
		:: else ->
			place(0); place(1);
			let_in();
			keep_sum();
			may_cut();
			if
			:: save == SAVING || save == SAVED -> skip
			:: (save != SAVING && save != SAVED) && open && !HOLDS && (pushed & listed) == listed && ALL_SUMMED && ask == NOTHING ->
				settling = 1; ask = ASKED; ask_term = lead_term; ask_round = round;
				ask_list = listed;
				for (j : 0 .. R - 1) {
					ask_gen[j] = (listed & BIT(j) -> lg[j] : 0);
					ask_rows[j] = (listed & BIT(j) -> lrow[j] : 0)
				}
				j = 0
			:: else
			fi
		fi }
	:: d_step { GO && up && settling && ask == ANSWERED ->
		if
		:: refusals == 0 || FAULT == 1 -> commit()
		:: else ->
			settling = 0; open = 0; listed = 0; in_sum = 0; on_hosts = 0;
			for (j : 0 .. R - 1) {
				if
				:: refusals & BIT(j) -> fenced[j] = ask_gen[j];
					if
					:: lg[j] == ask_gen[j] && ls[j] == ACTIVE -> out(j)
					:: else -> pushed = pushed & ~BIT(j); lrow[j] = 0
					fi
				:: else ->
					if
					:: (ask_list & BIT(j)) && !(ls[j] == ACTIVE && lg[j] == ask_gen[j]) ->
						pushed = pushed & ~BIT(j); lrow[j] = 0;
						if
						:: a[j] == PUSHED && gen[j] == ask_gen[j] && up_to[j] ->
							answer[j] = fenced_
						:: else
						fi
					:: else
					fi
				fi
			}
			j = 0; look = 1
		fi;
		unask() }
	/* connections: to replicas, and of ranks that have gone */
	:: d_step { GO && up && rs[0] == GONE && rup[0] && serves[0] -> rs[0] = HERE; linked[0] = 1;
		at_version[0] = rapplied[0]; at_round[0] = (rstate[0] == HELD -> rnumber[0] : 0); look = 1 }
	:: d_step { HOSTS == 2 && GO && up && !cut && rs[1] == GONE && rup[1] && serves[1] ->
		rs[1] = HERE; linked[1] = 1;
		at_version[1] = rapplied[1]; at_round[1] = (rstate[1] == HELD -> rnumber[1] : 0); look = 1 }
	:: d_step { GO && up && rs[0] != GONE && !linked[0] -> replica_out(0) }
	:: d_step { HOSTS == 2 && GO && up && rs[1] != GONE && !linked[1] -> replica_out(1) }
	:: d_step { GO && up && ls[0] && (!up_to[0] || lg[0] != gen[0]) -> out(0); look = 1 }
	:: d_step { GO && up && ls[1] && (!up_to[1] || lg[1] != gen[1]) -> out(1); look = 1 }
#if R == 3
	:: d_step { GO && up && ls[2] && (!up_to[2] || lg[2] != gen[2]) -> out(2); look = 1 }
#endif
	/* the first to come has waited long enough for the others */
	:: d_step { GO && up && !settling && expect && ANY(IS_WAITING) -> expect = 0; look = 1 }
	od
}
proctype Shardd() {
end:	do
	:: d_step { SAVES && GO && up && save == SAVING -> n_queue = done; save = SAVED }
	:: d_step { ask == ASKED && GO ->
		if
		:: ask_term != term && FAULT != 16 -> unask(); look = up
		:: else ->
			if
			:: ask_round == number && FAULT != 5 -> skip
			:: else ->
				number = ask_round; refusals = 0;
				for (k : 0 .. R - 1) {
					if :: (ask_list & BIT(k)) && ask_gen[k] != force[k] -> refusals = refusals | BIT(k)
					:: else fi;
					if :: ask_rows[k] & ~hand[k] -> refusals = refusals | BIT(k) :: else fi
				}
				if
				:: refusals == 0 || FAULT == 1 ->
					note_any = 0;
					for (k : 0 .. R - 1) {
						if
						:: (ask_list & BIT(k)) && !(refusals & BIT(k)) && ask_rows[k] ->
							assert(!(done & ask_rows[k]));
							done = done | ask_rows[k]; hand[k] = hand[k] & ~ask_rows[k];
							note_any = 1
						:: else
						fi
					}
					committed++; assert(committed < 15); note = ask_round;
					note_birth = (committed == 1 -> birth : 0);
					was[committed] = done
				:: else
				fi;
				k = 0
			fi;
			if :: ask_term == term -> ask = ANSWERED :: else -> unask(); look = up fi
		fi }
	od
}

/* ==== replicas ==== */
#define NEW_SLOT(h) SLOT(h, 0, (FAULT == 4 -> 0 : 1 - flip[h]))
inline mark(h, state) {
	x = NEW_SLOT(h);
	s_at[x] = rat[h]; s_round[x] = rnumber[h]; s_state[x] = state; x = 0;
	if :: state == COMMITTED -> flip[h] = 1 - flip[h] :: else fi
}
/* What was pushed for an iteration that is over is thrown away. */
inline tidy(h) {
	for (i : 0 .. R - 1) {
		if
		:: H(i) == h && staged_gen[i] && staged_at[i] < rapplied[h] ->
			staged_gen[i] = 0; staged_at[i] = 0; staged[i] = 0
		:: else
		fi
	}
	i = 0
}
inline begin_sum(h) {
	if :: rstate[h] == HELD && rat[h] + 1 == x && FAULT != 10 -> i = x; mark(h, COMMITTED); x = i; i = 0
	:: else fi;
	rat[h] = x; rapplied[h] = x; taken[h] = 0; rstate[h] = ADDING; tidy(h)
}
inline do_apply(h, n, at, any) {
	if
	:: at < rapplied[h] -> skip                       /* repeated */
	:: at > rapplied[h] -> linked[h] = 0              /* refused: the lead connects anew */
	:: at == rapplied[h] && any && !(rstate[h] == HELD && rnumber[h] == n) -> linked[h] = 0
	:: at == rapplied[h] && (!any || (rstate[h] == HELD && rnumber[h] == n)) ->
		if :: any -> mark(h, COMMITTED) :: else fi;
		rstate[h] = NONE; rat[h] = 0; rapplied[h] = at + 1; tidy(h)
	fi
}
#define HERE_OF(h, r) (rgen[(h) * R + (r)] == 0 || \
	((staged_gen[r] == rgen[(h) * R + (r)] || (FAULT == 20 && staged_gen[r])) && staged_at[r] == rat[h]))
#if R == 2
#define ALL_HERE(h) (HERE_OF(h, 0) && HERE_OF(h, 1))
#else
#define ALL_HERE(h) (HERE_OF(h, 0) && HERE_OF(h, 1) && HERE_OF(h, 2))
#endif
inline unlate() {
	if
	:: !late_sum[0] && !late_sum[1] ->
		late_round = 0; late_at = 0; late_hosts = 0;
		for (j : 0 .. R - 1) { late_gen[j] = 0 }
		j = 0
	:: else
	fi
}
proctype Replica(byte h) {
end:	do
	:: d_step { GO && rup[h] && linked[h] && up && REACH(h) && o_apply[h] ->
		o_apply[h] = 0; do_apply(h, last, applied - 1, last_any) }
	:: d_step { GO && rup[h] && late_apply[h] && !o_apply[h] ->
		if
		:: rstate[h] == HELD && rnumber[h] == late_apply[h] ->
			mark(h, COMMITTED); rstate[h] = NONE; rat[h] = 0; rapplied[h]++; tidy(h)
		:: else
		fi;
		late_apply[h] = 0 }
	:: d_step { GO && rup[h] && linked[h] && up && REACH(h) && o_sum[h] && !o_apply[h] ->
		o_sum[h] = 0;
		if
		:: round < rnumber[h] && !taken[h] -> skip
		:: else ->
			x = applied; begin_sum(h);
			rnumber[h] = round; alone[h] = (on_hosts == BIT(h));
			mark(h, 0);
			for (j : 0 .. R - 1) {
				rgen[h * R + j] = ((listed & BIT(j)) && H(j) == h -> lg[j] : 0) }
			j = 0
		fi }
	:: d_step { GO && rup[h] && late_sum[h] ->
		late_sum[h] = 0;
		if
		:: late_round < rnumber[h] && !taken[h] && FAULT != 15 -> skip
		:: else ->
			x = late_at; begin_sum(h);
			rnumber[h] = late_round; alone[h] = (late_hosts == BIT(h));
			mark(h, 0);
			for (j : 0 .. R - 1) { rgen[h * R + j] = (H(j) == h -> late_gen[j] : 0) }
			j = 0
		fi;
		unlate() }
	:: d_step { GO && rup[h] && rstate[h] == ADDING && ALL_HERE(h) ->
		x = 0;
		for (j : 0 .. R - 1) {
			if :: rgen[h * R + j] -> x = x | staged[j]; rgen[h * R + j] = 0 :: else fi }
		s_rows[NEW_SLOT(h)] = x; x = 0; j = 0;
		if
		:: alone[h] -> rstate[h] = HELD; mark(h, WHOLE)
		:: else -> rstate[h] = ABROAD
		fi }
	:: d_step { GO && rup[h] && linked[h] && up && REACH(h) && rs[h] == IN && rstate[h] == HELD &&
		open && rnumber[h] == round && summed[h] != round -> summed[h] = round; look = 1 }
	od
}
/* Over both hosts.  What breaks off is ordered again. */
inline again(h) {
	for (j : 0 .. R - 1) { rgen[h * R + j] = 0 }
	j = 0; rstate[h] = NONE;
	if :: up && open && rnumber[h] == round -> broke = 1 :: else fi
}
#define BREAKS(h, o) ((rstate[h] == ADDING || rstate[h] == ABROAD || rstate[h] == COMES) && !alone[h] && (!rup[o] || \
	!fabric || cut || rnumber[o] > rnumber[h] || (rnumber[o] == rnumber[h] && rstate[o] == NONE)))
proctype Fabric() {
end:	do
	:: d_step { GO && fabric && !cut && rstate[0] == ABROAD && rstate[1] == ABROAD &&
		(rnumber[0] == rnumber[1] || FAULT == 19) ->
		x = s_rows[NEW_SLOT(0)] | s_rows[NEW_SLOT(1)];
		s_rows[NEW_SLOT(0)] = x; s_rows[NEW_SLOT(1)] = x; x = 0;
		rstate[0] = COMES; rstate[1] = COMES }
	:: d_step { GO && rstate[0] == COMES -> rstate[0] = HELD; mark(0, WHOLE) }
	:: d_step { GO && rstate[1] == COMES -> rstate[1] = HELD; mark(1, WHOLE) }
	/* the other host has begun a newer sum, or has given this one up, or is gone */
	:: d_step { GO && rup[0] && BREAKS(0, 1) -> again(0) }
	:: d_step { GO && rup[1] && BREAKS(1, 0) -> again(1) }
	:: d_step { GO && up && broke && fabric && !cut && rup[0] && rup[1] -> broke = 0; open = 0; look = 1 }
	od
}

/* ==== ranks ==== */
/* f: one more than the slot in which r finds the sum of an iteration, of this round (0: any) */
inline find(r, at, n) {
	f = 0;
	if
	:: room[r] || old[r] ->
		for (k : 0 .. 1) {
			x = SLOT(H(r), (room[r] -> 0 : 1), k);
			if
			:: !f && s_at[x] == at && s_state[x] >= WHOLE -> f = x + 1
			:: else
			fi
		}
		if :: f && n && s_round[f - 1] != n && FAULT != 17 -> f = 0 :: else fi;
		k = 0; x = 0
	:: else
	fi
}
inline heard(r) { answer[r] = no_answer; answer_at[r] = 0; answer_any[r] = 0; answer_round[r] = 0; answer_birth[r] = 0 }
/* The memory of a replica that died goes with the last who has it. */
inline let_go(h) {
	b = 0;
	for (k : 0 .. R - 1) {
		if :: H(k) == h && (old[k] || (reads[k] && ((reads[k] - 1) & 2))) -> b = 1 :: else fi }
	for (k : SLOT(h, 1, 0) .. SLOT(h, 1, 1)) {
		if :: !b -> s_state[k] = 0; s_at[k] = 0; s_round[k] = 0; s_rows[k] = 0 :: else fi }
	b = 0; k = 0
}
inline lose(r) {
	a[r] = LOST; heard(r); step[r] = 0; step_any[r] = 0; row[r] = 0; up_to[r] = 0; gives[r] = 0;
	to_save[r] = 0; on_disk[r] = 0; w_at[r] = 0; w_of[r] = 0; tells[r] = 0; holds[r] = 0
}
/* The sum is handed to the trainer. */
inline sum_is(r) { vain[r] = 0; reads[r] = f; reads_round[r] = s_round[f - 1]; ver[r]++; t[r] = STEPS; f = 0 }
inline nothing_came(r) { vain[r]++; assert(vain[r] < 4); if :: FAULT != 23 -> whole[r] = 0 :: else fi; if :: t[r] == SUM -> t[r] = NEXT :: else fi }
#define CAN_JOIN(r) (a[r] == APART && room[r] && (SLOW || linked[H(r)] || rs[H(r)] == GONE) && up_to[r] && up && REACH(H(r)) && !step[r] && \
	((t[r] == NEXT) || (whole[r] && (t[r] == COMPUTES || t[r] == SUM || (t[r] == STEPS && FAULT != 12)))))
#define MINE(r) (t[r] < DEAD && GO)
#define HAS_ROWS(q) (hand[q] && ls[q] == ACTIVE)
#define FOUND(r, q) (s_state[q] >= WHOLE && s_at[q] == ver[r] && s_round[q] == note)
#define FINDS(r) (note_any == 0 || (room[r] && (FOUND(r, SLOT(H(r), 0, 0)) || FOUND(r, SLOT(H(r), 0, 1)))) || \
	(old[r] && (FOUND(r, SLOT(H(r), 1, 0)) || FOUND(r, SLOT(H(r), 1, 1)))))
/* It has what was committed last, or can make it; or it loads that. */
#define FIT(r) (t[r] < DEAD && gen[r] > fenced[r] && ((whole[r] && (ver[r] == committed || (ver[r] + 1 == committed && (ver[r] || born[r] == note_birth) && t[r] == SUM && FINDS(r)))) || \
	(t[r] == LOADS && ver[r] == committed)))
#define FIT_HERE(r) (FIT(r) && REACH(H(r)))
proctype Rank(byte r) {
end:	do
	/* ---- the trainer ---- */
	:: d_step { MINE(r) && t[r] == COMPUTES -> t[r] = SUM }
	/* What another sum was written over while it was read is worth nothing: its rank must not enter. */
	:: d_step { MINE(r) && t[r] == STEPS ->
		x = reads[r] - 1;
		if
		:: s_round[x] == reads_round[r] && s_state[x] >= WHOLE ->
			assert(!(has[r] & s_rows[x]));
			has[r] = has[r] | s_rows[x]; assert(IS(r, ver[r]))
		:: else ->
			assert(!(ls[r] == ACTIVE && lg[r] == gen[r]));
			has[r] = 255
		fi;
		reads[r] = 0; reads_round[r] = 0; x = 0; let_go(H(r)); t[r] = NEXT }
	:: d_step { MINE(r) && t[r] == LOADS -> whole[r] = 1; vain[r] = 0; t[r] = NEXT }
	/* ---- coming ---- */
	:: d_step { MINE(r) && a[r] == LOST && up && REACH(H(r)) ->
		newest[r]++; assert(newest[r] < 12); gen[r] = newest[r]; force[r] = gen[r];
		hand[r] = (FAULT == 2 -> hand[r] : 0); up_to[r] = 1; a[r] = APART;
		if :: inc[r] != incarnation -> whole[r] = 0 :: else fi;
		inc[r] = incarnation }
	:: d_step { MINE(r) && a[r] == APART && rup[H(r)] && !room[r] ->
		room[r] = 1;
		if
		:: old[r] && FAULT != 9 && rstate[H(r)] == NONE ->
			f = SLOT(H(r), 1, 0);
			if :: s_state[f] < WHOLE || (s_state[f + 1] >= WHOLE && s_round[f + 1] > s_round[f]) -> f++ :: else fi;
			if
			:: s_state[f] >= WHOLE && s_round[f] > rnumber[H(r)] ->
				rnumber[H(r)] = s_round[f]; rat[H(r)] = s_at[f]; taken[H(r)] = 1;
				rstate[H(r)] = (s_state[f] == WHOLE -> HELD : NONE);
				rapplied[H(r)] = s_at[f] + (s_state[f] == COMMITTED);
				s_rows[NEW_SLOT(H(r))] = s_rows[f];
				i = s_state[f]; mark(H(r), i); i = 0
			:: else
			fi;
			f = 0
		:: else
		fi;
		old[r] = 0; serves[H(r)] = 1; let_go(H(r)) }
	:: d_step { MINE(r) && CAN_JOIN(r) && gen[r] > fenced[r] ->
		assert(!(due[r] && lg[r] == gen[r] && whole[r]) || ver[r] == applied || (died & LATE));
		if :: lg[r] < gen[r] -> tried[r] = 0 :: else fi;
		if :: ls[r] -> out(r) :: else fi;
		heard(r);
		lg[r] = gen[r]; ls[r] = JOINING; token[r] = 1; unaware[r] = 0;
		lv[r] = (whole[r] -> ver[r] : NO);
		if :: FAULT != 11 && lv[r] == 0 && born[r] != birth -> lv[r] = NO :: else fi;
		if :: FAULT == 24 && lv[r] != NO && lv[r] > applied -> applied = lv[r] :: else fi;
		a[r] = JOINS; look = 1 }
	:: d_step { MINE(r) && CAN_JOIN(r) && gen[r] <= fenced[r] -> lose(r) }
	:: d_step { MINE(r) && a[r] == JOINS && answer[r] == joined_ ->
		a[r] = MEMBER; born[r] = answer_birth[r];
		if
		:: !whole[r] -> whole[r] = 1; ver[r] = answer_at[r]
		:: else
		fi;
		assert(ver[r] == answer_at[r] || FAULT == 6);
		assert(t[r] == STEPS || ls[r] != ACTIVE || lg[r] != gen[r] || IS(r, ver[r]));
		if :: (t[r] == COMPUTES || t[r] == SUM) && FAULT != 2 -> row[r] = 0 :: else fi;
		/* it can give only before a batch, and this one is held until it has */
		if
		:: gives[r] && (t[r] == COMPUTES || t[r] == SUM) && FAULT != 25 ->
			if :: up && up_to[r] && giver == r && give_attempt == gives[r] -> giver = NO; give_attempt = 0; look = 1
			:: else fi;
			gives[r] = 0
		:: else
		fi;
		heard(r) }
	:: d_step { MINE(r) && a[r] == JOINS && answer[r] == fill_ ->
		born[r] = answer_birth[r];
		f = (state_attempt[H(r)] == answer_round[r] -> H(r) : answer_any[r]);
		if
		:: t[r] != NEXT -> whole[r] = 0; lose(r)
		:: t[r] == NEXT && rup[H(r)] && rup[f] && REACH(f) && REACH(H(r)) && state_attempt[f] == answer_round[r] ->
			whole[r] = 0; ver[r] = state_at[f]; has[r] = state_of[f]; t[r] = LOADS; a[r] = APART
		:: else -> whole[r] = 0; a[r] = APART
		fi;
		heard(r); f = 0 }
	:: d_step { MINE(r) && a[r] == JOINS && answer[r] == step_ ->
		if
		:: t[r] == COMPUTES || t[r] == SUM -> step[r] = answer_round[r]; step_any[r] = answer_any[r]; a[r] = APART
		:: t[r] == NEXT -> nothing_came(r); a[r] = APART
		:: else -> whole[r] = 0; lose(r)
		fi;
		heard(r) }
	/* ---- the one sum that it lacks ---- */
	:: d_step { MINE(r) && a[r] == APART && step[r] && t[r] == SUM && (room[r] || !rup[H(r)]) ->
		find(r, ver[r], step[r]);
		b = step_any[r]; step[r] = 0; step_any[r] = 0;
		if
		:: !b -> ver[r]++; t[r] = NEXT
		:: b && f -> sum_is(r)
		:: else -> nothing_came(r)
		fi;
		f = 0; b = 0 }
	:: d_step { MINE(r) && a[r] == APART && !whole[r] && t[r] == SUM && !step[r] -> t[r] = NEXT }
	/* ---- a batch ---- */
	:: d_step { MINE(r) && a[r] == MEMBER && t[r] == NEXT && !gives[r] && !to_save[r] && force[r] == gen[r] && TODO ->
		row[r] = 1;
		do :: TODO & row[r] -> break :: else -> row[r] = row[r] << 1 od;
		hand[r] = row[r]; t[r] = COMPUTES }
	:: d_step { MINE(r) && a[r] == MEMBER && t[r] == NEXT && !gives[r] && !to_save[r] && !TODO && done != ALL &&
		ANY(HAS_ROWS) -> row[r] = 0; t[r] = COMPUTES }
	:: d_step { MINE(r) && a[r] == MEMBER && t[r] == SUM && rup[H(r)] && room[r] ->
		staged[r] = row[r]; staged_gen[r] = gen[r]; staged_at[r] = ver[r]; a[r] = STAGED }
	:: d_step { MINE(r) && a[r] == STAGED && up && up_to[r] && REACH(H(r)) ->
		if
		:: ls[r] == ACTIVE && lg[r] == gen[r] && gen[r] > fenced[r] ->
			pushed = pushed | BIT(r); lrow[r] = row[r]; a[r] = PUSHED; look = 1
		:: else -> lose(r)
		fi }
	:: d_step { FAULT == 7 && MINE(r) && a[r] == PUSHED && answer[r] == no_answer && rstate[H(r)] == HELD &&
		rat[H(r)] == ver[r] && t[r] == SUM ->
		find(r, ver[r], 0);
		if :: f -> sum_is(r) :: else fi;
		row[r] = 0; a[r] = MEMBER }
	:: d_step { MINE(r) && a[r] == PUSHED && answer[r] == pushed_ ->
		find(r, ver[r], 0);
		if
		:: answer_at[r] == ver[r] + 1 && !answer_any[r] -> ver[r]++; row[r] = 0; t[r] = NEXT; a[r] = MEMBER
		:: answer_at[r] == ver[r] + 1 && answer_any[r] && f -> sum_is(r); row[r] = 0; a[r] = MEMBER
		:: else -> assert(f || (died & REPLICA_0) || died_too); lose(r)
		fi;
		heard(r) }
	/* ---- it saves: a copy first, and it goes on when it has that ---- */
	:: d_step { SAVES && MINE(r) && t[r] == NEXT && (a[r] == MEMBER || a[r] == ENDING || a[r] == GIVING) &&
		to_save[r] && answer[r] == no_answer ->
		assert(ver[r] + 1 == to_save[r] || FAULT == 29);
		w_at[r] = to_save[r] - 1; to_save[r] = 0; w_of[r] = has[r]; tells[r] = 1; holds[r] = 0;
		if :: !gives[r] && a[r] != MEMBER -> a[r] = MEMBER :: else fi }
	:: d_step { SAVES && MINE(r) && tells[r] && up && up_to[r] && REACH(H(r)) ->
		tells[r] = 0;
		if
		:: (who & BIT(r)) && lg[r] == gen[r] && w_at[r] == n_at ->
			who = who & ~BIT(r); look = 1;
			if :: on_disk[r] -> n_is = 1; n_of = w_of[r] :: else fi
		:: else -> w_at[r] = 0; w_of[r] = 0
		fi;
		on_disk[r] = 0 }
	:: d_step { SAVES && MINE(r) && holds[r] ->
		m_at[H(r)] = w_at[r]; m_of[H(r)] = w_of[r]; holds[r] = 0; w_at[r] = 0; w_of[r] = 0 }
	/* ---- it gives its state: first to its replica ---- */
	:: d_step { MINE(r) && t[r] == NEXT && (a[r] == MEMBER || a[r] == ENDING || a[r] == GIVING) && gives[r] &&
		state_attempt[H(r)] != gives[r] && rup[H(r)] && room[r] ->
		state_attempt[H(r)] = gives[r]; state_at[H(r)] = ver[r]; state_of[H(r)] = has[r] }
	:: d_step { MINE(r) && t[r] == NEXT && (a[r] == MEMBER || a[r] == ENDING || a[r] == GIVING) && gives[r] &&
		state_attempt[H(r)] == gives[r] && up && up_to[r] && REACH(H(r)) ->
		if
		:: giver == r && give_attempt && give_attempt == gives[r] ->
			given = gives[r]; given_at = give_at; given_host = H(r);
			giver = NO; give_attempt = 0; look = 1
		:: else
		fi;
		gives[r] = 0;
		if :: a[r] == ENDING || a[r] == GIVING -> a[r] = MEMBER :: else fi }
	/* ---- going ---- */
	:: d_step { MINE(r) && a[r] == MEMBER && t[r] == NEXT && !gives[r] && !to_save[r] && done == ALL && up && up_to[r] && REACH(H(r)) ->
		if
		:: lg[r] == gen[r] && gen[r] > fenced[r] && (ls[r] == ACTIVE || ls[r] == ENDED || FAULT == 26) ->
			i = (ls[r] == ACTIVE -> applied : lv[r]);
			b = who; who = 0; if :: ls[r] -> out(r) :: else fi; who = b; b = 0;
			heard(r);
			ls[r] = ENDED; lv[r] = i; token[r] = 1; i = 0; a[r] = ENDING; look = 1
		:: else -> lose(r)
		fi }
	:: d_step { (LEAVES & BIT(r)) && MINE(r) && a[r] == MEMBER && t[r] == NEXT && !gives[r] && !to_save[r] && up && up_to[r] &&
		REACH(H(r)) && !settling ->
		b = 0;
		for (k : 0 .. R - 1) { if :: k != r && HAS(k) -> b = 1 :: else fi }
		k = 0; c = ANY(LACKS);
		if
		:: (ls[r] == ACTIVE || (ls[r] == ENDED && lv[r] == applied)) && !b && c && FAULT != 13 ->
			if :: !give_attempt -> giver = r :: else fi;
			tell(r)
		:: else -> /* nobody asks for its state: that others begin is for the supervisor to see */
			b = c;
			for (k : 0 .. R - 1) { if :: k != r && FIT(k) -> b = 1 :: else fi }
			k = 0;
			if :: !b -> unlucky = 1 :: else fi;
			if :: ls[r] && lg[r] == gen[r] -> out(r) :: else fi;
			lose(r); whole[r] = 0; room[r] = 0; old[r] = 0; hand[r] = 0; force[r] = 0; has[r] = 0;
			t[r] = LEFT; look = 1
		fi;
		b = 0; c = 0 }
	/* ---- what it hears of others ---- */
	:: d_step { MINE(r) && answer[r] == fenced_ -> lose(r) }
	:: d_step { MINE(r) && a[r] == MEMBER && t[r] == NEXT && force[r] != gen[r] && done != ALL -> lose(r) }
	:: d_step { MINE(r) && a[r] != LOST && !up_to[r] -> lose(r) }
	:: d_step { MINE(r) && a[r] >= JOINS && !room[r] -> lose(r) }
	od
}

/* ==== the supervisor, and what dies ==== */
#define ABLE(r) (t[r] < DEAD && REACH(H(r)) && ((a[r] == LOST) || answer[r] || t[r] == LOADS || CAN_JOIN(r) || (a[r] != LOST && !up_to[r]) || \
	!rup[H(r)] || (a[r] == APART && !room[r]) || (step[r] && t[r] == SUM) || (a[r] >= JOINS && !room[r]) || \
	ls[r] == JOINING && token[r] && !WAITS(r)))
#define HAS_ENDED(r) (a[r] == ENDING && ls[r] == ENDED)
#define OVER(r) (HAS_ENDED(r) || t[r] == LEFT)
#define TAG(r) (((r) + 1 + 3 * lives[r]) << 4)
#define MAY(n) ((CRASH & (n)) && !(died & (n)) && GO)
#define MAY_TOO(n) ((CRASH & (n)) && !(died_too & ((n) >> 8)) && GO)
#define RUNS(r) (t[r] < DEAD)
inline born_again(r) {
	if :: ls[r] -> out(r) :: else fi;
	if :: fenced[r] < gen[r] -> fenced[r] = gen[r] :: else fi;
	force[r] = 0; hand[r] = 0; lives[r]++; has[r] = TAG(r); born[r] = 0; inc[r] = incarnation;
	if
	:: back && !ANY(RUNS) && !(back == 2 && FAULT != 27) ->
		assert(back == 1); has[r] = d_of; ver[r] = d_at; whole[r] = 1
	:: else
	fi;
	t[r] = NEXT; look = 1
}
inline replica_dies(h) {
	rup[h] = 0; serves[h] = 0; linked[h] = 0; taken[h] = 0; rstate[h] = NONE; rnumber[h] = 0; rat[h] = 0;
	rapplied[h] = 0; flip[h] = 0; state_attempt[h] = 0; state_at[h] = 0; state_of[h] = 0;
	late_sum[h] = 0; late_apply[h] = 0; o_sum[h] = 0; o_apply[h] = 0; alone[h] = 0;
	for (j : 0 .. 1) {
		s_state[SLOT(h, 1, j)] = s_state[SLOT(h, 0, j)]; s_at[SLOT(h, 1, j)] = s_at[SLOT(h, 0, j)];
		s_round[SLOT(h, 1, j)] = s_round[SLOT(h, 0, j)]; s_rows[SLOT(h, 1, j)] = s_rows[SLOT(h, 0, j)];
		s_state[SLOT(h, 0, j)] = 0; s_at[SLOT(h, 0, j)] = 0; s_round[SLOT(h, 0, j)] = 0; s_rows[SLOT(h, 0, j)] = 0
	}
	for (j : 0 .. R - 1) {
		if
		:: H(j) == h ->
			rgen[h * R + j] = 0; staged_gen[j] = 0; staged_at[j] = 0; staged[j] = 0;
			if :: room[j] -> room[j] = 0; old[j] = 1 :: else fi;
			if :: reads[j] && reads[j] <= SLOT(h, 0, 1) + 1 && reads[j] > SLOT(h, 0, 0) -> reads[j] = reads[j] + 2 :: else fi
		:: else
		fi
	}
	j = 0
}
inline lead_dies() {
	up = 0; settling = 0; unheld = 0; broke = 0; giver = NO; give_attempt = 0; give_at = 0;
	given = 0; given_at = 0; given_host = 0; pushed = 0; kept = 0; no_cut();
	late_round = round; late_at = applied; late_hosts = on_hosts;
	for (j : 0 .. 1) {
		late_sum[j] = o_sum[j] && linked[j]; o_sum[j] = 0;
		late_apply[j] = (o_apply[j] && linked[j] -> last : 0); o_apply[j] = 0;
		rs[j] = GONE; summed[j] = 0; linked[j] = 0; at_version[j] = 0; at_round[j] = 0
	}
	for (j : 0 .. R - 1) {
		late_gen[j] = (listed & BIT(j) -> lg[j] : 0);
		up_to[j] = 0; ls[j] = OUT; lg[j] = 0; lv[j] = NO; lrow[j] = 0; due[j] = 0; token[j] = 0;
		fenced[j] = 0; tried[j] = 0; unaware[j] = 0
	}
	unlate(); round = 0; j = 0; open = 0; listed = 0; in_sum = 0; on_hosts = 0
}
/* What was given up; all begin with the newest checkpoint, on a host that is away when it is back. */
inline go_back() {
	lead_dies(); unask();
	for (f : 0 .. HOSTS - 1) { replica_dies(f) }
	for (f : 0 .. 7) { s_state[f] = 0; s_at[f] = 0; s_round[f] = 0; s_rows[f] = 0 }
	for (f : d_at + 1 .. 15) { was[f] = 0 }
	late_round = 0; late_at = 0; late_hosts = 0;
	incarnation++; committed = d_at; done = d_queue; note = 0; note_any = 0; note_birth = 0; number = 0; refusals = 0;
	unlucky = 0; back = 1;
	if :: (CRASH & AGAIN) && incarnation == 1 -> died = 0 :: else fi;
	for (f : 0 .. R - 1) {
		hand[f] = 0; force[f] = 0; late_gen[f] = 0;
		if
		:: t[f] == LEFT
		:: t[f] != LEFT && t[f] != DEAD && cut && H(f) == 1 -> lose(f)
		:: else ->
			lose(f); vain[f] = 0; reads[f] = 0; reads_round[f] = 0; room[f] = 0; old[f] = 0; born[f] = 0;
			inc[f] = incarnation; t[f] = NEXT; whole[f] = 1; ver[f] = d_at; has[f] = d_of;
			if
			:: m_at[H(f)] && (FAULT == 28 || (m_at[H(f)] == d_at && m_of[H(f)] == d_of)) -> has[f] = m_of[H(f)]
			:: else
			fi;
			assert(IS(f, d_at))
		fi
	}
	f = 0
}
#define SETTLED(r) !(settling && (ask_list & BIT(r)))
#if R == 2
#define ALL_OVER (OVER(0) && OVER(1))
#define SOME_END (HAS_ENDED(0) || HAS_ENDED(1))
#else
#define ALL_OVER (OVER(0) && OVER(1) && OVER(2))
#define SOME_END (HAS_ENDED(0) || HAS_ENDED(1) || HAS_ENDED(2))
#endif
#define ALL_LEFT (!ANY(STAYS))
#define STAYS(r) (t[r] != LEFT)
proctype Supervisor() {
	do
	:: d_step { GO && up && t[0] == DEAD && SETTLED(0) -> born_again(0) }
	:: d_step { GO && up && t[1] == DEAD && SETTLED(1) -> born_again(1) }
	:: d_step { GO && !rup[0] -> rup[0] = 1 }
	:: d_step { GO && !rup[1] -> rup[1] = 1 }
	:: d_step { GO && !fabric -> fabric = 1 }
	:: d_step { GO && cut -> cut = 0 }
	:: d_step { !finished && !up ->
		term++; lead_term = term; applied = (FAULT == 24 -> 0 : committed); last = note; last_any = note_any;
		expect = R; up = 1; look = 1; birth = (FAULT == 31 -> 0 : note_birth);
		if :: ask == ANSWERED -> unask() :: else fi }
	/* nobody here has the state that others lack, and all have come who can */
	:: d_step { GO && up && !settling && !expect && (!cut || MAY_TOO(AWAY)) && ANY(LACKS) && !ANY(HAS) &&
		!ANY(IS_UNAWARE) && !ANY(ABLE) &&
		(rs[0] == GONE || linked[0]) && (rs[1] == GONE || linked[1]) ->
		assert(!ANY(FIT_HERE)); assert(unlucky || cut);
		if :: cut -> died_too = died_too | (AWAY >> 8) :: else fi;
		if :: d_at -> go_back() :: else -> finished = 1 fi }
	/* checkpoints; the last one */
	:: d_step { SAVES && GO && up && !save && saves < SAVES && done != ALL -> saves++; save = WANTED; look = 1 }
	:: d_step { SAVES && GO && up && !save && !settling && done == ALL && d_queue != ALL && ALL_OVER && SOME_END &&
		!ANY(IS_DUE) -> save = WANTED; look = 1 }
	:: d_step { GO && up && done == ALL && ALL_OVER && SOME_END && !ANY(IS_DUE) && (!SAVES || d_queue == ALL) ->
		for (j : 0 .. R - 1) {
			assert(t[j] == LEFT || (done == ALL && ver[j] == committed && IS(j, committed)))
		}
		j = 0; finished = 1 }
	:: d_step { GO && ALL_LEFT -> finished = 1 }
	:: finished -> break
	od
}
/* r's push may still be settled, and then those in the same sum have what it makes: if their host is not missed, and
 * nobody has taken their row away (who is between two batches then joins again, and can't make that step). */
#define IN_SUM(k) (ls[k] == ACTIVE && lg[k] == gen[k] && force[k] == gen[k] && up_to[k] && linked[H(k)] && REACH(H(k)))
inline dies(r) {
	b = 0;
	for (k : 0 .. R - 1) { if :: k != r && FIT(k) && (IN_SUM(k) || !((pushed | ask_list) & BIT(r))) -> b = 1
		:: else fi }
	if :: !b -> unlucky = 1 :: else fi;
	b = 0; k = 0;
	lose(r); t[r] = DEAD; vain[r] = 0; whole[r] = 0; room[r] = 0; old[r] = 0; has[r] = 0; ver[r] = 0; reads[r] = 0; reads_round[r] = 0;
	let_go(H(r))
}
inline missed() {
	if :: t[0] == DEAD && ((pushed | ask_list) & 1) -> unlucky = 1 :: else fi
}
/* Rank 0's row is taken away: it may have been the only one left in the sum of one that died. */
inline taken_away() {
	b = 0;
	for (k : 1 .. R - 1) { if :: FIT(k) && IN_SUM(k) -> b = 1 :: else fi }
	if :: !b && t[1] == DEAD && ((pushed | ask_list) & 2) -> unlucky = 1 :: else fi;
	b = 0; k = 0
}
proctype Crashes() {
end:	do
	:: d_step { MAY(RANK_0) && t[0] < DEAD -> died = died | RANK_0; dies(0) }
	:: d_step { MAY(RANK_1) && t[1] < DEAD -> died = died | RANK_1; dies(1) }
	:: d_step { MAY(REPLICA_0) && rup[0] -> died = died | REPLICA_0; replica_dies(0) }
	:: d_step { MAY(LEAD) && up -> died = died | LEAD; lead_dies() }
	:: d_step { MAY(SHARDD) && ask == ANSWERED -> died = died | SHARDD; ask = ASKED }
	:: d_step { MAY(PERSON) && force[0] -> died = died | PERSON; force[0] = 0; hand[0] = 0; taken_away() }
	:: d_step { MAY(FENCE) && up && gen[0] && SETTLED(0) -> died = died | FENCE; fenced[0] = gen[0]; unaware[0] = 0;
		if :: !ANY(FIT) -> unlucky = 1 :: else fi;
		if :: ls[0] && lg[0] == gen[0] -> out(0) :: else fi; look = 1 }
	:: d_step { MAY(LATE) && up && !settling && HOLDS -> died = died | LATE; unheld = 1; giver = NO; give_attempt = 0;
		for (j : 0 .. R - 1) { if :: due[j] -> put_out(j) :: else fi } j = 0; look = 1 }
	:: d_step { HOSTS == 2 && MAY_TOO(REPLICA_1) && rup[1] -> died_too = died_too | 1; replica_dies(1) }
	:: d_step { HOSTS == 2 && MAY_TOO(FABRIC) && fabric -> died_too = died_too | 2; fabric = 0 }
	:: d_step { HOSTS == 2 && MAY_TOO(CUT_OFF) && !cut -> died_too = died_too | 4; cut = 1 }
	/* who is cut off is missed there, or here, or not */
	:: d_step { HOSTS == 2 && GO && cut && linked[1] -> linked[1] = 0; o_sum[1] = 0; o_apply[1] = 0; missed() }
	:: d_step { HOSTS == 2 && GO && cut && up_to[1] -> up_to[1] = 0; missed() }
	od
}

init {
	d_step {
		for (j : 0 .. R - 1) { has[j] = TAG(j); lv[j] = NO }
		if
		:: FRESH
		:: else ->
			expect = 0; births = 1; birth = 1; origin = TAG(0) >> 4; look = 1;
			for (j : 0 .. R - 1) {
				has[j] = TAG(0); lv[j] = 0; born[j] = 1; whole[j] = 1; room[j] = 1; up_to[j] = 1;
				newest[j] = 1; gen[j] = 1; force[j] = 1; lg[j] = 1; ls[j] = ACTIVE; a[j] = MEMBER
			}
			for (j : 0 .. HOSTS - 1) { rs[j] = IN; linked[j] = 1; serves[j] = 1 }
		fi;
		j = 0
	}
	atomic {
		run Lead(); run Shardd(); run Replica(0); run Rank(0); run Rank(1); run Supervisor();
#if HOSTS == 2
		run Replica(1); run Fabric();
#endif
#if R == 3
		run Rank(2);
#endif
		if :: CRASH -> run Crashes() :: else fi
	}
}
