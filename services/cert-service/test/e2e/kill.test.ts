import t from 'tap'
import { killAndLook } from '../helpers/kills.ts'

t.test('killed at any moment, nothing that was handed out is lost', (t) => killAndLook(t, 5))
