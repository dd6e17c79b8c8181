import { Table } from '../../src/tables.ts'

export const ROWS = new Table(
  'kept',
  { id: 'id', name: 'text', size: 'integer' },
  { also: ['UNIQUE (name)'] },
)
export const MIGRATIONS = [() => ROWS.createdBy('sqlite')]
