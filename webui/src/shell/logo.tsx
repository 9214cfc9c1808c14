/** The logo of Muster: squares in rows, as at a roll call. */
export function Logo() {
    return (
        <svg class="logo" viewBox="0 0 20 20" aria-hidden="true">
            <path d="M2 3h4v4H2zM8 3h4v4H8zM14 3h4v4h-4zM2 9h4v4H2zM8 9h4v4H8zM2 15h4v2H2z" />
        </svg>
    );
}
