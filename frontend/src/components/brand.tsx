import classes from "./brand.module.css";

/** The mark: two wheels, one bike. */
export function Brand({ size = 28 }: { readonly size?: number }) {
  return (
    <span className={classes.brand}>
      <svg width={size} height={size} viewBox="0 0 32 32" aria-hidden>
        <path
          d="M8.5 20 14 11h9l-5.5 9zM14 11l3.5 9M23 11l.5 9"
          fill="none"
          stroke="var(--neutral)"
          strokeWidth={1.75}
          strokeLinejoin="round"
          strokeLinecap="round"
        />
        <circle cx={8} cy={20} r={5.75} fill="none" stroke="var(--prefill)" strokeWidth={3} />
        <circle cx={24} cy={20} r={5.75} fill="none" stroke="var(--decode)" strokeWidth={3} />
      </svg>
      Tandem
    </span>
  );
}
