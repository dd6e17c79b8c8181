import { readFileSync } from 'node:fs'
import { pagesIn } from '@gatehouse/service-kit/pages'

const SHEETS = ['./pages.css', './details.css']

export const page = pagesIn(
  SHEETS.map((sheet) => readFileSync(new URL(sheet, import.meta.url), 'utf8')).join(''),
)
