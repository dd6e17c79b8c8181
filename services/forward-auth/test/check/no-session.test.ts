import t from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { testNoSession } from '../no-session.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'check refused')

const RUNS = Number(process.env.GATEHOUSE_FUZZ ?? 5_000)

t.test('invariant: no valid session, no 2xx', (t) => testNoSession(t, RUNS))
