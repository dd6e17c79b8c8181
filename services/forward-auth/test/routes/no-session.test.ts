import t from 'tap'
import { testNoSession } from '../no-session.ts'

const RUNS = Number(process.env.GATEHOUSE_FUZZ ?? 5_000)

t.test('invariant: no valid session, no 2xx', (t) => testNoSession(t, RUNS))
